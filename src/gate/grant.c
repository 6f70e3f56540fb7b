#include "gate/grant.h"

#include <string.h>

/* Digits alone; strtol takes more, and sets errno. */
bool grant_number(const char *s, uint64_t *out)
{
    uint64_t n = 0;

    if (!*s)
        return false;
    for (; *s; s++) {
        unsigned int digit = (unsigned int) *s - '0';

        if (digit > 9 || n > (UINT64_MAX - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    *out = n;
    return true;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "GPU-" and 32 hex digits with dashes between; anything else is no device. */
static void add_device(struct grant *g, const char *s)
{
    uint8_t id[16];
    size_t k = 0;
    int high, low;

    g->named = true;
    if (strncmp(s, "GPU-", 4) != 0 || g->devices == GATE_DEVICES)
        return;
    for (s += 4; *s && k < sizeof id; s++) {
        if (*s == '-')
            continue;
        high = hex(s[0]);
        low = hex(s[1]);
        if (high < 0 || low < 0)
            return;
        id[k++] = (uint8_t) (high << 4 | low);
        s++;
    }
    if (k == sizeof id && !*s)
        memcpy(g->uuid[g->devices++], id, sizeof id);
}

/* What makes no sense is no memory, and not no limit. */
static void take_limit(struct grant *g, const char *s)
{
    g->limited = true;
    if (!grant_number(s, &g->limit))
        g->limit = 0;
}

static void take_line(struct grant *g, char *line)
{
    char *word = strchr(line, ' ');

    if (word)
        *word++ = '\0';
    else
        word = line + strlen(line);
    if (strcmp(line, "page") != 0)
        word[strcspn(word, " ")] = '\0';
    if (strcmp(line, "page") == 0)
        g->map(word);
    else if (strcmp(line, "memory") == 0)
        take_limit(g, word);
    else if (strcmp(line, "device") == 0)
        add_device(g, word);
    else if (strcmp(line, "lost") == 0)
        g->go = strcmp(word, "go") == 0;
    else if (strcmp(line, "ready") == 0)
        g->ready = true;
    else if (strcmp(line, "open") == 0)
        g->ready = g->open = true;
}

void grant_take(struct grant *g, char *data, size_t *have)
{
    char *end;

    while ((end = memchr(data, '\n', *have))) {
        *end = '\0';
        take_line(g, data);
        *have -= (size_t) (end + 1 - data);
        memmove(data, end + 1, *have);
    }
}

void grant_begin(struct grant *g)
{
    g->devices = 0;
    g->limited = g->named = false;
}
