"""Takes a context and holds the device until a file is there.

Usage: hold.py SECONDS_AT_MOST; $HOLD_UNTIL names the file.
"""
import ctypes
import os
import sys
import time

from say import say

cu = ctypes.CDLL("libcuda.so.1")
ctx, ptr = ctypes.c_void_p(), ctypes.c_uint64()
for rc in (cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0),
           cu.cuCtxSetCurrent(ctx),
           cu.cuMemAlloc_v2(ctypes.byref(ptr), ctypes.c_size_t(64 << 20))):
    if rc:
        sys.exit(f"the driver answers {rc}")
say("ready")
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end and not os.path.exists(
        os.environ.get("HOLD_UNTIL", "")):
    time.sleep(0.002)
say("end")
