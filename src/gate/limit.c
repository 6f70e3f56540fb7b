#include "gate/limit.h"
#include "gate/slot.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* The bytes of the lease are in the page, for all its processes together; what
 * each process has is in its slot there, so that the bytes of one that was
 * killed can be taken off.  Which allocation has how many is known here alone,
 * in a table with its own pages: the heap is not ours to use.
 *
 * Booking comes before the driver is asked, and is undone when it says no: two
 * threads or processes cannot both get the last bytes.
 */
enum { FIRST_ROOM = 1 << 12 };

static struct gate_lock lock;
static struct limit_entry *table;      /* open addressing; a power of two */
static size_t room, filled;            /* filled: with those taken out */
static CUcontext primary[GATE_DEVICES];
static uint64_t graphs[GATE_DEVICES];  /* bytes, booked */

typedef CUresult (*ctx_fn)(CUcontext *);
typedef CUresult (*dev_fn)(CUdevice *);

/* The old table is not unmapped: its parent may have been changing it. */
void limit_forked(void)
{
    lock.held = 0;
    table = NULL;
    room = filled = 0;
    memset(primary, 0, sizeof primary);
    memset(graphs, 0, sizeof graphs);
}

static size_t hash(enum limit_kind kind, uint64_t key)
{
    return (size_t) (((key ^ (uint64_t) kind << 56) * 0x9e3779b97f4a7c15U) >>
                     20) & (room - 1);
}

static struct limit_entry *find(enum limit_kind kind, uint64_t key)
{
    if (!room)
        return NULL;
    for (size_t k = hash(kind, key); table[k].key; k = (k + 1) & (room - 1)) {
        if (table[k].kind == kind && table[k].key == key)
            return &table[k];
    }
    return NULL;
}

static void insert(const struct limit_entry *e)
{
    size_t k = hash(e->kind, e->key);

    while (table[k].kind != LIMIT_NONE)
        k = (k + 1) & (room - 1);
    filled += table[k].key == 0;
    table[k] = *e;
}

/* Room for one more; false when there is no memory. */
static bool make_room(void)
{
    struct limit_entry *old = table;
    size_t was = room, live = 0;
    void *p;

    if (room && filled + 1 < room / 4 * 3)
        return true;
    for (size_t k = 0; k < was; k++)
        live += old[k].kind != LIMIT_NONE;
    room = was == 0 ? FIRST_ROOM : live < was / 2 ? was : was * 2;
    p = mmap(NULL, room * sizeof *table, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        room = was;
        return false;
    }
    table = p;
    filled = 0;
    for (size_t k = 0; k < was; k++) {
        if (old[k].kind != LIMIT_NONE)
            insert(&old[k]);
    }
    if (old)
        (void) munmap(old, was * sizeof *old);
    return true;
}

/* The key stays, so that searches go past it. */
static void take_out(struct limit_entry *e)
{
    e->kind = LIMIT_NONE;
}

static void give_back(CUdevice dev, uint64_t n)
{
    struct gate_slot *slot = slot_mine();

    if (dev >= 0 && dev < GATE_DEVICES)
        SLOT_SUB(gate_page, slot, used[dev], n);
}

static bool reserve(CUdevice dev, uint64_t n)
{
    struct gate_slot *slot = slot_mine();
    struct gate_page *p = gate_page;
    uint64_t limit = gate_limit(), old = p->used[dev];
    bool reaped = false;

    for (;;) {
        if (n > limit || old > limit - n) {
            if (reaped)
                return false;
            reaped = true;
            slot_reap();
            old = p->used[dev];
        } else if (atomic_compare_exchange_weak(&p->used[dev], &old,
                                                old + n)) {
            break;
        }
    }
    if (slot)
        slot->used[dev] += n;
    return true;
}

CUresult limit_take(struct limit_book *b, CUdevice dev, uint64_t n)
{
    int saved = errno;
    bool ok = true;

    b->ctx = NULL;
    b->dev = dev;
    b->n = n;
    if (dev == LIMIT_HERE && REAL_AS(dev_fn, cuCtxGetDevice)(&b->dev))
        b->dev = -1;                   /* the driver will say what is wrong */
    else if (dev == LIMIT_HERE)
        (void) REAL_AS(ctx_fn, cuCtxGetCurrent)(&b->ctx);
    if (b->dev < 0 || b->dev >= GATE_DEVICES) {
        b->dev = -1;
        return CUDA_SUCCESS;
    }
    gate_take(&lock);
    ok = make_room() && reserve(b->dev, n);
    gate_drop(&lock);
    errno = saved;
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* An allocation that the table has no room for stays booked until its process
 * ends.
 */
CUresult limit_settle(struct limit_book *b, CUresult rc, enum limit_kind kind,
                      uint64_t key)
{
    struct limit_entry e = { .key = key, .n = b->n, .ctx = b->ctx,
                             .dev = b->dev, .refs = 1, .kind = kind };
    int saved = errno;

    if (b->dev < 0)
        return rc;
    gate_take(&lock);
    if (rc != CUDA_SUCCESS || !key)
        give_back(b->dev, b->n);
    else if (make_room())
        insert(&e);
    gate_drop(&lock);
    errno = saved;
    return rc;
}

bool limit_out(struct limit_entry *e, enum limit_kind kind, uint64_t key)
{
    int saved = errno;
    struct limit_entry *found;

    gate_take(&lock);
    found = key ? find(kind, key) : NULL;
    if (found) {
        *e = *found;
        take_out(found);
    }
    gate_drop(&lock);
    errno = saved;
    return found;
}

CUresult limit_after(struct limit_entry *e, bool known, CUresult rc)
{
    int saved = errno;

    if (!known)
        return rc;
    gate_take(&lock);
    if (rc == CUDA_SUCCESS)
        give_back(e->dev, e->n);
    else if (make_room())
        insert(e);
    gate_drop(&lock);
    errno = saved;
    return rc;
}

static void let_go(CUhandle h)
{
    struct limit_entry *e = find(LIMIT_HANDLE, h);

    if (!e || --e->refs > 0)
        return;
    give_back(e->dev, e->n);
    take_out(e);
}

void limit_hold(CUhandle h)
{
    struct limit_entry *e;

    gate_take(&lock);
    e = find(LIMIT_HANDLE, h);
    if (e)
        e->refs++;
    gate_drop(&lock);
}

void limit_let_go(CUhandle h)
{
    gate_take(&lock);
    let_go(h);
    gate_drop(&lock);
}

void limit_mapped(CUdeviceptr p, uint64_t n, CUhandle h)
{
    struct limit_entry e = { .key = p, .n = n, .of = h, .kind = LIMIT_MAP };
    struct limit_entry *of;

    gate_take(&lock);
    of = find(LIMIT_HANDLE, h);
    if (of && make_room()) {
        find(LIMIT_HANDLE, h)->refs++;
        insert(&e);
    }
    gate_drop(&lock);
}

void limit_unmapped(CUdeviceptr p, uint64_t n)
{
    gate_take(&lock);
    for (size_t k = 0; k < room; k++) {
        struct limit_entry *e = &table[k];

        if (e->kind == LIMIT_MAP && e->key >= p && e->key - p < n) {
            let_go(e->of);
            take_out(e);
        }
    }
    gate_drop(&lock);
}

static void lose(CUcontext ctx)
{
    for (size_t k = 0; ctx && k < room; k++) {
        if (table[k].kind != LIMIT_NONE && table[k].ctx == ctx) {
            give_back(table[k].dev, table[k].n);
            take_out(&table[k]);
        }
    }
}

void limit_lose(CUcontext ctx)
{
    gate_take(&lock);
    lose(ctx);
    gate_drop(&lock);
}

void limit_primary(CUdevice dev, CUcontext ctx)
{
    if (dev < 0 || dev >= GATE_DEVICES)
        return;
    gate_take(&lock);
    primary[dev] = ctx;
    gate_drop(&lock);
}

void limit_lose_primary(CUdevice dev)
{
    if (dev < 0 || dev >= GATE_DEVICES)
        return;
    gate_take(&lock);
    lose(primary[dev]);
    gate_drop(&lock);
}

void limit_pool(void *pool, CUdevice dev)
{
    struct limit_entry e = { .key = (uintptr_t) pool, .dev = dev,
                             .kind = LIMIT_POOL };
    int saved = errno;

    gate_take(&lock);
    if (pool && !find(LIMIT_POOL, e.key) && make_room())
        insert(&e);
    gate_drop(&lock);
    errno = saved;
}

void limit_no_pool(void *pool)
{
    struct limit_entry *e;

    gate_take(&lock);
    e = find(LIMIT_POOL, (uintptr_t) pool);
    if (e)
        take_out(e);
    gate_drop(&lock);
}

CUdevice limit_pool_device(void *pool)
{
    struct limit_entry *e;
    CUdevice dev;

    gate_take(&lock);
    e = find(LIMIT_POOL, (uintptr_t) pool);
    dev = e ? e->dev : LIMIT_HERE;
    gate_drop(&lock);
    return dev;
}

uint64_t limit_used(CUdevice dev)
{
    if (dev < 0 || dev >= GATE_DEVICES)
        return 0;
    slot_reap();
    return gate_page->used[dev];
}

bool limit_fits(CUdevice dev, uint64_t n)
{
    uint64_t limit = gate_limit();

    return dev < 0 || dev >= GATE_DEVICES || limit == UINT64_MAX ||
           (n <= limit && limit_used(dev) <= limit - n);
}

void limit_graphs(CUdevice dev, uint64_t n)
{
    struct gate_slot *slot = slot_mine();

    gate_take(&lock);
    if (n > graphs[dev])
        SLOT_ADD(gate_page, slot, used[dev], n - graphs[dev]);
    else
        SLOT_SUB(gate_page, slot, used[dev], graphs[dev] - n);
    graphs[dev] = n;
    gate_drop(&lock);
}
