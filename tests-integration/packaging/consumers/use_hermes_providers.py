"""A program on hermes-providers: builds providers for several hosts, with keys and limits of its own."""

import asyncio

from hermes_messages import (
    ChatRequest,
    ErrorKind,
    History,
    ProviderError,
    ResponseDone,
    TextDelta,
    UserMessage,
)
from hermes_messages.protocols import Provider, ProviderFactory, ProviderOptions, SupportsSecrets
from hermes_providers import (
    HttpProvider,
    KeyFunction,
    Profile,
    RateLimiter,
    custom,
    find_model,
    from_profile,
    get_profile,
    list_profiles,
    openrouter,
)

FACTORIES: dict[str, ProviderFactory] = {"custom": custom, "openrouter": openrouter}


async def fetch_token() -> str:
    return "a-token"


def build() -> list[Provider]:
    limiter = RateLimiter(requests_per_minute=500, max_concurrent=4)
    azure: HttpProvider = from_profile(
        "azure-openai",
        ProviderOptions(base_url="https://mine.example/openai/v1", model="mine"),
        key=KeyFunction(fetch_token, keep_s=600),
        limiter=limiter,
    )
    by_name = FACTORIES["custom"](
        ProviderOptions(base_url="http://127.0.0.1:9/v1", model="m", api_key="sk-hidden")
    )
    return [azure, by_name]


async def ask(provider: Provider, words: str) -> str:
    request = ChatRequest(model=provider.default_model or "m", history=History.of([UserMessage(words)]))
    said: list[str] = []
    async for event in provider.stream(request):
        match event:
            case TextDelta(text=text):
                said.append(text)
            case ResponseDone(response=response):
                print(response.usage)
            case _:
                pass
    return "".join(said)


async def main() -> None:
    profiles: list[Profile] = list(list_profiles())
    print(
        [profile.name for profile in profiles],
        get_profile("groq").base_url,
        find_model("openai", "gpt-5-mini"),
    )
    for provider in build():
        assert isinstance(provider, SupportsSecrets)
    closed_port = build()[1]
    assert "sk-hidden" not in repr(closed_port)
    await closed_port.open()
    try:
        await ask(closed_port, "Hello")
    except ProviderError as error:
        kind: ErrorKind = error.kind
        print(kind, error.status, error.retry_after_s)
        assert kind is ErrorKind.TRANSPORT
    finally:
        await closed_port.close()


asyncio.run(main())
