#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <stddef.h>

/* static - what a static weir-runner has in the place of functions that would
 * load libraries of the machine at run time: modules for OpenSSL, which has none
 * here, and the C library's name services, whose work c-ares does (resolve.c).
 * Both refer to them and neither gets to call them; if one did, it would hear
 * that there is nothing.  The linker puts them in (--wrap, see meson.build).
 */
#define STANDS_IN(result, name, params, value) \
    result __wrap_##name params; \
    result __wrap_##name params { return value; }

#pragma GCC diagnostic ignored "-Wunused-parameter"
STANDS_IN(void *, dlopen, (const char *file, int mode), NULL)
STANDS_IN(void *, dlsym, (void *module, const char *name), NULL)
STANDS_IN(int, dlclose, (void *module), -1)
STANDS_IN(const char *, dlerror, (void), "this program loads nothing")
STANDS_IN(int, dladdr, (const void *at, Dl_info *ret), 0)
STANDS_IN(int, getaddrinfo, (const char *node, const char *service,
                             const struct addrinfo *hints,
                             struct addrinfo **ret), EAI_FAIL)
STANDS_IN(void, freeaddrinfo, (struct addrinfo *list), )
STANDS_IN(const char *, gai_strerror, (int code), "no name service")
STANDS_IN(int, getnameinfo, (const struct sockaddr *at, socklen_t len,
                             char *host, socklen_t host_len, char *service,
                             socklen_t service_len, int flags), EAI_FAIL)
STANDS_IN(struct hostent *, gethostbyname, (const char *name), NULL)
STANDS_IN(struct servent *, getservbyname, (const char *name,
                                            const char *proto), NULL)
STANDS_IN(int, getservbyname_r, (const char *name, const char *proto,
                                 struct servent *room, char *buf, size_t size,
                                 struct servent **ret), ENOENT)
STANDS_IN(int, getservbyport_r, (int port, const char *proto,
                                 struct servent *room, char *buf, size_t size,
                                 struct servent **ret), ENOENT)
