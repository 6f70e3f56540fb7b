#include "base/map.h"

#include "base/fs.h"
#include "base/mem.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

/* Entries stand in an array in order of insertion; `slots` is a hash table of
 * their places (plus one; 0 is free).  A deleted entry keeps its place and
 * its slot, with no value, until the array is full: then the live ones are
 * moved together and the slots made anew.  There are twice as many slots as
 * places, so a search always meets a free one.
 */
struct entry {
    char *key;               /* NULL: the key is `id` */
    uint64_t id;
    uint64_t hash;
    void *value;             /* NULL: deleted */
};

struct map {
    struct entry *entries;
    uint32_t *slots;
    uint32_t cap;            /* places, a power of two; 0 at first */
    uint32_t used;           /* places taken, by the living and the dead */
    uint32_t live;
    uint32_t first;          /* no live entry stands before it */
};

#define rotl(x, b) ((x) << (b) | (x) >> (64 - (b)))

static void sip_round(uint64_t v[4])
{
    v[0] += v[1], v[1] = rotl(v[1], 13) ^ v[0], v[0] = rotl(v[0], 32);
    v[2] += v[3], v[3] = rotl(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = rotl(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = rotl(v[1], 17) ^ v[2], v[2] = rotl(v[2], 32);
}

/* One for all maps of the process: the kernel is asked once. */
static uint64_t seed[2];
static pthread_once_t seeded = PTHREAD_ONCE_INIT;

static void make_seed(void)
{
    seed[0] = fs_random();
    seed[1] = fs_random();
}

/* SipHash-1-3: without the seed nobody can choose keys that collide. */
static uint64_t hash_bytes(const void *key, size_t len)
{
    uint64_t v[4] = {
        seed[0] ^ 0x736f6d6570736575, seed[1] ^ 0x646f72616e646f6d,
        seed[0] ^ 0x6c7967656e657261, seed[1] ^ 0x7465646279746573,
    };
    const unsigned char *p = key;
    uint64_t word;

    for (size_t left = len; left >= 8; left -= 8, p += 8) {
        memcpy(&word, p, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    word = (uint64_t) len << 56;
    for (size_t i = 0; i < len % 8; i++)
        word |= (uint64_t) p[i] << (8 * i);
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static uint64_t hash_key(const char *key, uint64_t id)
{
    return key ? hash_bytes(key, strlen(key))
               : hash_bytes(&id, sizeof id);
}

struct map *map_new(void)
{
    struct map *m = mem_new(sizeof *m);

    (void) pthread_once(&seeded, make_seed);
    return m;
}

void map_free(struct map *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; i < m->used; i++)
        free(m->entries[i].key);
    free(m->entries);
    free(m->slots);
    free(m);
}

size_t map_count(const struct map *m)
{
    return m->live;
}

static bool same_key(const struct entry *e, const char *key, uint64_t id)
{
    if (!e->value || !e->key != !key)
        return false;
    return key ? strcmp(e->key, key) == 0 : e->id == id;
}

static struct entry *find(const struct map *m, const char *key, uint64_t id)
{
    uint32_t mask = m->cap * 2 - 1;
    uint64_t hash;

    if (m->live == 0)
        return NULL;
    hash = hash_key(key, id);
    for (uint32_t i = (uint32_t) hash & mask; m->slots[i]; i = (i + 1) & mask) {
        struct entry *e = &m->entries[m->slots[i] - 1];

        if (e->hash == hash && same_key(e, key, id))
            return e;
    }
    return NULL;
}

static void link_slot(struct map *m, uint32_t place)
{
    uint32_t mask = m->cap * 2 - 1;
    uint32_t i = (uint32_t) m->entries[place].hash & mask;

    while (m->slots[i])
        i = (i + 1) & mask;
    m->slots[i] = place + 1;
}

/* Full: drop the dead, and take more room unless they were at least half. */
static void rebuild(struct map *m)
{
    uint32_t n = 0;

    if (m->live >= m->cap / 2) {
        assert(m->cap <= UINT32_MAX / 4);
        m->cap = m->cap ? m->cap * 2 : 8;
        m->entries = mem_grow(m->entries, m->cap, sizeof *m->entries);
        free(m->slots);
        m->slots = mem_array((size_t) m->cap * 2, sizeof *m->slots);
    } else {
        memset(m->slots, 0, (size_t) m->cap * 2 * sizeof *m->slots);
    }
    for (uint32_t i = 0; i < m->used; i++)
        if (m->entries[i].value)
            m->entries[n++] = m->entries[i];
    m->used = n;
    m->first = 0;
    for (uint32_t i = 0; i < n; i++)
        link_slot(m, i);
}

static void *set(struct map *m, const char *key, uint64_t id, void *value)
{
    struct entry *e = find(m, key, id);

    assert(value);
    if (e) {
        void *was = e->value;

        e->value = value;
        return was;
    }
    if (m->used == m->cap)
        rebuild(m);
    m->entries[m->used] = (struct entry) {
        .key = mem_str(key),
        .id = id,
        .hash = hash_key(key, id),
        .value = value,
    };
    link_slot(m, m->used++);
    m->live++;
    return NULL;
}

static void *del(struct map *m, const char *key, uint64_t id)
{
    struct entry *e = find(m, key, id);
    void *was;

    if (!e)
        return NULL;
    was = e->value;
    e->value = NULL;
    free(e->key);
    e->key = NULL;
    m->live--;
    while (m->first < m->used && !m->entries[m->first].value)
        m->first++;
    return was;
}

void *map_get(const struct map *m, const char *key)
{
    const struct entry *e = find(m, key, 0);

    return e ? e->value : NULL;
}

void *map_set(struct map *m, const char *key, void *value)
{
    return set(m, key, 0, value);
}

void *map_del(struct map *m, const char *key)
{
    return del(m, key, 0);
}

void *map_get_id(const struct map *m, uint64_t key)
{
    const struct entry *e = find(m, NULL, key);

    return e ? e->value : NULL;
}

void *map_set_id(struct map *m, uint64_t key, void *value)
{
    return set(m, NULL, key, value);
}

void *map_del_id(struct map *m, uint64_t key)
{
    return del(m, NULL, key);
}

void *map_next(const struct map *m, size_t *pos, const char **ret_key)
{
    size_t i = *pos > m->first ? *pos : m->first;

    while (i < m->used && !m->entries[i].value)
        i++;
    *pos = i + 1;
    if (i >= m->used)
        return NULL;
    if (ret_key)
        *ret_key = m->entries[i].key;
    return m->entries[i].value;
}
