"""Any server that speaks Anthropic's Messages API and nothing else: chat is translated both ways."""

from providers.kinds.anthropic import Anthropic


class AnthropicMessages(Anthropic):
    type = "anthropic-messages"
    label = "Anthropic (Messages API)"
    default_base_url = ""
    base_url_hint = "https://gateway.example.com/anthropic"
    # What is asked of its reasoning is translated.
    strip = Anthropic.strip - {"reasoning_effort"}
    chat_route = "messages"
    messages_for_documents = False
    heals_messages = True
    # Whose models they are is not known.
    modelsdev = ""
    modelsdev_only = False
