"""AWS Bedrock over its OpenAI-compatible endpoint ("mantle") with a Bedrock API key."""

import re

from providers.kinds.base import Blank, Http, Kind, Listed

#: Claude is listed there, with or without a region in front, and not served on chat completions.
_NOT_SERVED = re.compile(r"((us|eu|apac|global)\.)?anthropic\.")


class Bedrock(Kind):
    type = "bedrock"
    label = "AWS Bedrock"
    default_base_url = "https://bedrock-mantle.us-east-1.api.aws/v1"
    address_form = "https://bedrock-mantle.<region>.api.aws/v1"
    blanks = (Blank("region", "Region", "Where the account has its models, such as us-east-1.", "us-east-1"),)
    modelsdev = "amazon-bedrock"

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        found = await super().list_models(http, base_url, key)
        return [model for model in found if not _NOT_SERVED.match(model.model_id)]
