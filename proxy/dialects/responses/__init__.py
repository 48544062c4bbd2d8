"""OpenAI Responses, as the client speaks it and as a provider is spoken to (v1-api 13 and 16). Pure."""
