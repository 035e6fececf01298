"""Table 1 of the paper measured instead of quoted: what layers cost, and how far information travels through them."""
