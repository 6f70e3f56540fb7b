#include <errno.h>
#include <netdb.h>
#include <stddef.h>

/* static - what a static weir-runner has in the place of functions that would
 * load libraries of the machine at run time: modules for OpenSSL, which has none
 * here, and the C library's name services, whose work c-ares does (resolve.c).
 * Both refer to them and neither gets to call them; if one did, it would hear
 * that there is nothing.  The linker puts them in by their names (--wrap, see
 * meson.build), and what they are given is not looked at.
 */
#define STANDS_IN(result, name, value) \
    result __wrap_##name(void); \
    result __wrap_##name(void) { return value; }

STANDS_IN(void *, dlopen, NULL)
STANDS_IN(void *, dlsym, NULL)
STANDS_IN(int, dlclose, -1)
STANDS_IN(const char *, dlerror, "this program loads nothing")
STANDS_IN(int, dladdr, 0)
STANDS_IN(int, getaddrinfo, EAI_FAIL)
STANDS_IN(void, freeaddrinfo, )
STANDS_IN(const char *, gai_strerror, "there is no name service")
STANDS_IN(int, getnameinfo, EAI_FAIL)
STANDS_IN(struct hostent *, gethostbyname, NULL)
STANDS_IN(struct servent *, getservbyname, NULL)
STANDS_IN(int, getservbyname_r, ENOENT)
STANDS_IN(int, getservbyport_r, ENOENT)
