"""Finding, describing and starting methods; what they send, as formulas."""
