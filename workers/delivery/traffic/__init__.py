"""How much is sent to one endpoint at once, so that one which is slow or dead keeps nothing from the others."""
