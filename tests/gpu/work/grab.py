"""Takes device memory until there is no more, and says how much it got."""
import torch

from say import say

kept = []
say("total", torch.cuda.mem_get_info()[1])
try:
    while True:
        kept.append(torch.empty(256 << 20, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError as e:
    say("error", type(e).__name__)
say("got", len(kept) * (256 << 20))
