# The short way to the things that Meson and tools/ do.

BUILD  = build
prefix = /usr/local

all:
	tools/deps build
	tools/build $(BUILD)

demo: all
	tools/demo $(BUILD)

test:
	tools/deps test
	tools/test fast

test-slow:
	tools/deps test
	tools/test slow

# On a real Kubernetes, as root.  Its programs are built the first time.
test-engines:
	tools/deps engines
	tools/test engines

# On a machine with a GPU and PyTorch; elsewhere it says so in one line.
test-gpu: all
	tools/deps bundle
	tools/test-gpu $(BUILD)

bench: all
	tools/bench $(BUILD)

install: all
	meson configure $(BUILD) -Dprefix=$(prefix)
	meson install -C $(BUILD) --quiet

clean:
	rm -rf build build-asan build-fuzz build-cov

.PHONY: all demo test test-slow test-engines test-gpu bench install clean
