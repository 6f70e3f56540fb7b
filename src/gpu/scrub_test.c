#include "gpu/scrub.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/tap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/weir-scrub-XXXXXX";

static enum scrub with(const char *text)
{
    struct err err = { 0 };

    if (fs_write(path, text, strlen(text), 0600, false, &err) < 0)
        printf("# %s\n", err.text);
    return scrub_read(path);
}

int main(void)
{
    autoclose int fd = mkstemp(path);

    ok(fd >= 0, "a file");
    ok(with("ModifyDeviceFiles: 1\nRegistryDwords: \"\"\n"
            "RegistryDwordsPerDevice: \"\"\nRmMsg: \"\"\n") == SCRUB_ON,
       "as it is loaded");
    ok(with("RegistryDwords: \"RMDisableScrubOnFree=1\"\n") == SCRUB_OFF,
       "told not to");
    ok(with("RegistryDwords: \"RmMsg=1;rmdisablescrubonfree=0x1;A=0\"\n"
            "RegistryDwordsPerDevice: \"\"\n") == SCRUB_OFF,
       "among others, in any case");
    ok(with("RegistryDwords: \"RMDisableScrubOnFree=0\"") == SCRUB_ON,
       "told to");
    ok(with("RegistryDwords: \"\"\nRegistryDwordsPerDevice: "
            "\"pci=0000:01:00.0;RMDisableScrubOnFree=1\"\n") == SCRUB_OFF,
       "one device of several");
    ok(with("RegistryDwords: \"\"\nRmMsg: \"RMDisableScrubOnFree=1\"\n")
       == SCRUB_ON, "what stands elsewhere is no key");
    ok(with("EnableMSI: 1\n") == SCRUB_UNKNOWN, "a module that does not say");
    ok(with("") == SCRUB_UNKNOWN, "nothing");
    (void) unlink(path);
    ok(scrub_read(path) == SCRUB_UNKNOWN, "no file");
    return tap_done();
}
