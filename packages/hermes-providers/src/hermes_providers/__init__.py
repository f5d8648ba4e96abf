"""Provider adapters from one message model to the wire and back, streaming first, over httpx."""
