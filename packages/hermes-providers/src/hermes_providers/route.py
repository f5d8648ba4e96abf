"""One way to one host: who, where, with which key and headers, how long to wait, what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from hermes_messages import ChatRequest, ModelInfo
from hermes_messages.addresses import shown_url
from hermes_providers.credentials import Secret, query_secrets
from hermes_providers.keys import FixedKey, KeySource
from hermes_providers.models import find_model
from hermes_providers.prices import Price
from hermes_providers.profiles import AuthHeader
from hermes_providers.timeouts import Timeouts

__all__ = ["Route"]

_NO_KEY = FixedKey(None)
_LITTLE = (None, "none", "minimal")


class Route(Struct, frozen=True, kw_only=True):
    """Header values may be secret; neither they nor keys are in the repr.

    `info` is what the caller says of the model and wins over the table of models, as `prices` does.
    `reasoning_timeouts` hold for requests to models that reason. `hidden` are further secrets, like the
    password of a proxy.
    """

    provider: str
    """The name for messages, errors and accounts."""
    base_url: str
    """Without the path of the wire."""
    auth: AuthHeader = AuthHeader()
    """The header that carries the key."""
    keys: KeySource = _NO_KEY
    """Where each request gets its key from; by default there is none."""
    headers: Mapping[str, str] = {}
    """Sent with every request."""
    timeouts: Timeouts = Timeouts()
    """For requests to models that do not reason."""
    reasoning_timeouts: Timeouts = Timeouts().for_reasoning()
    default_model: str | None = None
    """Asked for when a request names none."""
    info: ModelInfo = ModelInfo()
    prices: Mapping[str, Price] = {}
    hidden: tuple[str, ...] = ()

    @property
    def host(self) -> str:
        """The host's name and port."""
        return urlsplit(self.base_url).netloc

    def secrets(self) -> tuple[str, ...]:
        """All values that must not be shown."""
        return (*self.keys.secrets(), *self.headers.values(), *self.hidden, *query_secrets(self.base_url))

    def request_headers(self, key: Secret | None, of_wire: Mapping[str, str] | None = None) -> dict[str, str]:
        """The headers of a request with `key`. The route's own come last and so win."""
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream, application/json",
            "accept-encoding": "identity",  # compression makes proxies hold events back
            "user-agent": "hermes-providers",
        }
        if of_wire is not None:
            headers |= {name.lower(): value for name, value in of_wire.items()}
        if key is not None:
            headers[self.auth.name.lower()] = self.auth.prefix + key.reveal()
        return headers | {name.lower(): value for name, value in self.headers.items()}

    def timeouts_for(self, request: ChatRequest) -> Timeouts:
        """The wider ones when the request asks for reasoning, or its model is known to reason unasked."""
        if request.reasoning_effort not in _LITTLE:
            return self.reasoning_timeouts
        known = find_model(self.provider, request.model)
        unasked = request.reasoning_effort is None and known is not None and known.reasons
        return self.reasoning_timeouts if unasked else self.timeouts

    def model_info(self, model: str) -> ModelInfo:
        """What the caller said, else what is known; None where neither knows."""
        said, known = self.info, find_model(self.provider, model)
        window, output, images = said.context_window, said.max_output_tokens, said.supports_images
        if known is not None:
            window, output = window or known.context_window, output or known.max_output_tokens
            images = known.supports_images if images is None else images
        return ModelInfo(
            context_window=window,
            max_output_tokens=output,
            supports_tools=said.supports_tools,
            supports_images=images,
            strong_efforts=True,  # the wires know what each model has
        )

    def price(self, model: str) -> Price | None:
        """The price that the caller gave for `model`, else the table's; None is unknown."""
        given = self.prices.get(model)
        if given is not None:
            return given
        known = find_model(self.provider, model)
        return None if known is None else known.price

    def __repr__(self) -> str:
        return f"Route({self.provider!r}, {shown_url(self.base_url)!r}, headers={list(self.headers)!r})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [
            ("provider", self.provider),
            ("base_url", shown_url(self.base_url)),
            ("headers", list(self.headers)),
        ]
