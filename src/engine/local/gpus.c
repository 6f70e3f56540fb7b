#include "engine/local/gpus.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "engine/gpuask.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Runners have one path, DIR/gpud, for as long as they live: a link to the
 * socket that is in use.
 *
 *     look -> somebody listens -> inventory -> the list
 *          -> who was used before is away: look again, for a while
 *          -> nobody: start our own, look again
 *     our own ended -> look again, later
 */
enum {
    LOOK_MS = 50,
    REFRESH_MS = 5000,
    AGAIN_MIN_MS = 1000,
    AGAIN_MAX_MS = 60000,
    LOOKS_MAX = 800,                   /* a driver may need 30 s to wake */
    END_MS = 8000,
    PATIENCE_MS = 30000,
    LIST_MAX = 1 << 20,
};

extern char **environ;

struct gpus {
    struct loop *loop;
    struct gpus_conf conf;
    char *dir, *program, *usual;       /* owned */
    char *own, *link;                  /* our own socket; what runners dial */
    json_t *list;                      /* NULL: not known yet */
    bool simulated;
    pid_t pid;                         /* of our own; 0: it does not run */
    int pidfd;
    unsigned looks;
    uint64_t again_ms;
    const char *at;                    /* where the link points: one of ours */
    uint64_t found_ms;                 /* when the usual one was there last */
    char said[256];                    /* what is wrong, as it was told last */
    struct watch *watch, *timer;
    struct gpuask *ask;
};

static void look(struct gpus *g);

static void on_look(struct watch *w, void *arg)
{
    struct gpus *g = arg;

    (void) w;
    g->timer = NULL;
    look(g);
}

static void look_later(struct gpus *g, uint64_t ms)
{
    watch_remove(g->timer);
    g->timer = loop_timer(g->loop, ms, on_look, g);
}

static void look_again(struct gpus *g)
{
    look_later(g, g->again_ms);
    g->again_ms = g->again_ms * 2 > AGAIN_MAX_MS ? AGAIN_MAX_MS
                                                 : g->again_ms * 2;
}

/* Once for as long as it is the same. */
static void trouble(struct gpus *g, const char *text)
{
    if (strncmp(g->said, text, sizeof g->said - 1) != 0 && *text)
        g->conf.trouble(text, g->conf.arg);
    (void) snprintf(g->said, sizeof g->said, "%s", text);
}

/* The list. */

/* "NVIDIA A100-SXM4-80GB" is A100-SXM4-80GB: what documents can name. */
static void model_of(const char *name, char *ret, size_t size)
{
    static const char brand[] = "NVIDIA ";
    size_t n = 0;

    if (strncmp(name, brand, strlen(brand)) == 0)
        name += strlen(brand);
    for (; *name && *name != '(' && n + 1 < size; name++)
        ret[n++] = isalnum((unsigned char) *name) || strchr("-_.", *name)
                 ? *name : '-';
    while (n && ret[n - 1] == '-')
        n--;
    ret[n] = '\0';
    if (!n)
        (void) snprintf(ret, size, "unknown");
}

/* One of the inventory as the list has it. */
static json_t *device_json(const json_t *d)
{
    json_t *o = json_object();
    char model[32];
    bool usable = strcmp(json_get_str(d, "state", ""), "ready") == 0;

    model_of(json_get_str(d, "model", ""), model, sizeof model);
    json_put_str(o, "model", model);
    json_put_u64(o, "memory", json_get_u64(d, "memory_bytes", 0));
    json_put_str(o, "uuid", json_get_str(d, "uuid", ""));
    if (!usable)
        json_put_bool(o, "lost", true);
    if (json_object_get(d, "numa"))
        json_put_u64(o, "numa", json_get_u64(d, "numa", 0));
    return o;
}

static json_t *find(const json_t *list, const char *uuid)
{
    json_t *d;
    size_t i;

    json_array_foreach(list, i, d)
        if (strcmp(json_get_str(d, "uuid", ""), uuid) == 0)
            return d;
    return NULL;
}

/* Those that were known before keep their places. */
static json_t *merge(const json_t *known, const json_t *found)
{
    json_t *list = json_array(), *d;
    size_t i;

    json_array_foreach(known, i, d) {
        const json_t *now = find(found, json_get_str(d, "uuid", ""));
        json_t *o = json_deep_copy(now ? now : d);

        /* One that does not answer may not even tell what it is. */
        if (!now || json_get_bool(now, "lost", false)) {
            json_decref(o);
            o = json_deep_copy(d);
            json_put_bool(o, "lost", true);
        }
        (void) json_array_append_new(list, o);
    }
    json_array_foreach(found, i, d)
        if (!find(known, json_get_str(d, "uuid", "")))
            (void) json_array_append(list, d);
    return list;
}

static int read_known(const struct gpus *g, json_t **ret, struct err *err)
{
    autofree char *path = mem_printf("%s/devices", g->dir);
    autofree char *text = NULL;
    size_t len = 0;
    int rc = fs_read(path, LIST_MAX, &text, &len, err);

    if (rc == -ENOENT) {
        *ret = json_array();
        return 0;
    }
    if (rc == 0)
        rc = json_read(text, len, LIST_MAX, ret, err);
    return rc < 0 ? err_prefix(err, rc, "'%s'", path) : 0;
}

static int write_known(const struct gpus *g, const json_t *list,
                       struct err *err)
{
    autofree char *path = mem_printf("%s/devices", g->dir);
    autofree char *text = json_text(list);

    return fs_write(path, text, strlen(text), 0600, true, err);
}

/* Those of `found` that are known: no new one has a place before it is kept. */
static json_t *only_known(const json_t *known, const json_t *found)
{
    json_t *list = json_array(), *d;
    size_t i;

    json_array_foreach(found, i, d)
        if (find(known, json_get_str(d, "uuid", "")))
            (void) json_array_append(list, d);
    return list;
}

/* The list that is to be told; NULL: the places are not known. */
static json_t *place(const struct gpus *g, const json_t *found,
                     struct err *err)
{
    autojson json_t *known = NULL, *some = NULL;
    json_t *list;
    int rc = read_known(g, &known, err);

    if (rc == 0) {
        list = merge(known, found);
        if (json_equal(list, known) || write_known(g, list, err) == 0)
            return list;
        json_decref(list);
    }
    if (g->list || rc == 0) {
        some = only_known(g->list ? g->list : known, found);
        return merge(g->list ? g->list : known, some);
    }
    return NULL;
}

/* Takes `found`; `why`: what is wrong, or "". */
static void set_list(struct gpus *g, json_t *found, const char *why)
{
    autojson json_t *owned = found, *was = NULL;
    struct err err = { 0 };
    json_t *list = place(g, owned, &err);

    trouble(g, *err.text ? err.text : why);
    if (!list)
        return;
    was = g->list;
    g->list = list;
    if (!was || !json_equal(was, list))
        g->conf.changed(g->conf.arg);
}

/* What is to be said of the node, or ""; `parted`: one in MIG mode, or NULL. */
static void why_of(const json_t *inventory, const json_t *parted, char *ret,
                   size_t size)
{
    *ret = '\0';
    if (strcmp(json_get_str(inventory, "state", ""), "ready") != 0)
        (void) snprintf(ret, size, "%s",
                        json_get_str(inventory, "why", "no device"));
    else if (!json_get_bool(inventory, "scrubs", true))
        (void) snprintf(ret, size, "the driver was told not to clear device "
                        "memory that is freed (RMDisableScrubOnFree): a task "
                        "may read what another left there");
    else if (parted)
        (void) snprintf(ret, size, "device %s is in MIG mode, with %zu "
                        "instances: no task is given those, nor the device "
                        "as a whole", json_get_str(parted, "uuid", "?"),
                        json_array_size(json_object_get(parted,
                                                        "mig_instances")));
}

static void on_inventory(const json_t *answer, const char *why, void *arg)
{
    struct gpus *g = arg;
    json_t *found, *d, *parted = NULL;
    char text[sizeof g->said];
    size_t i;

    gpuask_close(take(g->ask));
    if (!answer || strcmp(json_get_str(answer, "t", ""), "inventory") != 0) {
        trouble(g, answer ? json_get_str(answer, "text", "weir-gpud makes no "
                                         "sense") : why);
        look_again(g);
        return;
    }
    found = json_array();
    g->simulated = false;
    json_array_foreach(json_object_get(answer, "devices"), i, d) {
        g->simulated = g->simulated ||
                       strstr(json_get_str(d, "model", ""), "(simulated)");
        if (json_get_bool(d, "mig", false))
            parted = d;
        else if (*json_get_str(d, "uuid", ""))
            (void) json_array_append_new(found, device_json(d));
    }
    g->looks = 0;
    g->again_ms = AGAIN_MIN_MS;
    why_of(answer, parted, text, sizeof text);
    set_list(g, found, text);
    look_later(g, REFRESH_MS);
}

/* Our own weir-gpud. */

/* Nobody can be asked: what was known before is all there is. */
static void give_up(struct gpus *g, const char *why)
{
    if (!g->list)
        set_list(g, json_array(), why);
    else
        trouble(g, why);
    g->looks = 0;
    look_again(g);
}

static void reap(struct gpus *g)
{
    siginfo_t info = { 0 };

    watch_remove(take(g->watch));
    (void) waitid(P_PID, (id_t) g->pid, &info, WEXITED);
    (void) close(take_fd(g->pidfd));
    g->pid = 0;
}

static void on_ended(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct gpus *g = arg;

    (void) w;
    (void) fd;
    (void) ready;
    reap(g);
    gpuask_close(take(g->ask));
    give_up(g, "weir-gpud ended; it is started again");
}

static int spawn(struct gpus *g, struct err *err)
{
    autofree char *state = mem_printf("%s/gpud.d", g->dir);
    const char *const argv[] = {
        g->program, "--socket", g->own, "--state", state, NULL,
    };
    posix_spawnattr_t attr;
    sigset_t none, all;
    int rc;

    (void) sigemptyset(&none);
    (void) sigfillset(&all);
    (void) posix_spawnattr_init(&attr);
    (void) posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP |
                                    POSIX_SPAWN_SETSIGMASK |
                                    POSIX_SPAWN_SETSIGDEF);
    (void) posix_spawnattr_setsigmask(&attr, &none);
    (void) posix_spawnattr_setsigdefault(&attr, &all);
    rc = posix_spawn(&g->pid, g->program, NULL, &attr,
                     (char *const *) (uintptr_t) argv, environ);
    (void) posix_spawnattr_destroy(&attr);
    if (rc) {
        g->pid = 0;
        return err_set(err, rc, "start '%s': %s", g->program, strerror(rc));
    }
    return 0;
}

static int start(struct gpus *g, struct err *err)
{
    int rc = spawn(g, err);

    if (rc < 0)
        return rc;
    g->pidfd = (int) syscall(SYS_pidfd_open, g->pid, 0);
    rc = g->pidfd < 0 ? err_set(err, errno, "pidfd: %s", strerror(errno))
       : loop_fd(g->loop, g->pidfd, LOOP_READ, on_ended, g, &g->watch, err);
    if (rc < 0) {
        (void) kill(g->pid, SIGTERM);
        reap(g);
    }
    return rc;
}

/* Looking. */

static void point_at(struct gpus *g, const char *socket)
{
    autofree char *made = mem_printf("%s.new", g->link);

    if (g->at == socket)
        return;
    (void) unlink(made);
    if (symlink(socket, made) < 0 || rename(made, g->link) < 0)
        trouble(g, "the link to weir-gpud's socket is not made: no task can "
                "be suspended");
    else
        g->at = socket;
}

static void on_silent(struct watch *w, void *arg)
{
    struct gpus *g = arg;

    (void) w;
    g->timer = NULL;
    gpuask_close(take(g->ask));
    trouble(g, "weir-gpud does not answer");
    look_again(g);
}

static int ask_at(struct gpus *g, const char *socket, struct err *err)
{
    json_t *q = json_object();
    int rc;

    json_put_str(q, "t", "inventory");
    rc = gpuask_open(g->loop, socket, q, on_inventory, g, &g->ask, err);
    if (rc < 0)
        return rc;
    point_at(g, socket);
    watch_remove(g->timer);
    g->timer = loop_timer(g->loop, g->conf.patience_ms, on_silent, g);
    if (socket == g->usual)
        g->found_ms = loop_now(g->loop);
    return 0;
}

/* Has our own suspended tasks, as far as can be seen? */
static bool own_has_tasks(const struct gpus *g)
{
    autofree char *path = mem_printf("%s/gpud.d", g->dir);
    DIR *d = opendir(path);
    const struct dirent *e;
    bool any = !d && errno != ENOENT;

    while (d && !any && (e = readdir(d))) {
        const char *dot = strrchr(e->d_name, '.');

        any = dot && dot != e->d_name && strcmp(dot, ".json") == 0;
    }
    if (d)
        (void) closedir(d);
    return any;
}

static void look(struct gpus *g)
{
    struct err err = { 0 };
    bool stay = g->at == g->own && own_has_tasks(g);

    if (!stay && ask_at(g, g->usual, &err) == 0)
        return;
    if (g->at == g->usual &&
        loop_now(g->loop) - g->found_ms < g->conf.patience_ms) {
        trouble(g, err.text);
        look_later(g, LOOK_MS);
        return;
    }
    if (ask_at(g, g->own, &err) == 0)
        return;
    if (g->pid && ++g->looks < LOOKS_MAX) {
        look_later(g, LOOK_MS);
    } else if (g->pid) {
        give_up(g, err.text);
    } else if (start(g, &err) < 0) {
        give_up(g, err.text);
    } else {
        look_later(g, LOOK_MS);
    }
}

/* Whom the process before us used. */
static const char *used_before(const struct gpus *g)
{
    char at[PATH_MAX];
    ssize_t n = readlink(g->link, at, sizeof at - 1);

    at[n > 0 ? n : 0] = '\0';
    return strcmp(at, g->own) == 0 ? g->own
         : strcmp(at, g->usual) == 0 ? g->usual : NULL;
}

struct gpus *gpus_open(struct loop *l, const struct gpus_conf *conf)
{
    struct gpus *g = mem_new(sizeof *g);

    *g = (struct gpus) {
        .loop = l, .conf = *conf, .dir = mem_str(conf->dir),
        .program = mem_str(conf->program), .pidfd = -1,
        .again_ms = AGAIN_MIN_MS,
        .usual = mem_str(conf->socket ? conf->socket : GPUASK_SOCKET),
        .own = mem_printf("%s/gpud.sock", conf->dir),
        .link = mem_printf("%s/gpud", conf->dir),
        .found_ms = loop_now(l),
    };
    if (!g->conf.patience_ms)
        g->conf.patience_ms = PATIENCE_MS;
    g->at = used_before(g);
    look_later(g, 0);
    return g;
}

/* It may be in the midst of something, which it ends within 5 s. */
static void end(struct gpus *g)
{
    siginfo_t info = { 0 };

    (void) kill(g->pid, SIGTERM);
    for (int i = 0; i < END_MS && !info.si_pid; i++) {
        if (waitid(P_PID, (id_t) g->pid, &info, WEXITED | WNOHANG) < 0)
            break;
        if (!info.si_pid)
            (void) usleep(1000);
    }
    watch_remove(take(g->watch));
    (void) close(take_fd(g->pidfd));
}

void gpus_close(struct gpus *g)
{
    if (!g)
        return;
    gpuask_close(g->ask);
    watch_remove(g->timer);
    if (g->pid)
        end(g);
    json_decref(g->list);
    free(g->dir);
    free(g->program);
    free(g->usual);
    free(g->own);
    free(g->link);
    free(g);
}

const json_t *gpus_list(const struct gpus *g)
{
    return g->list;
}

bool gpus_simulated(const struct gpus *g)
{
    return g->simulated;
}

const char *gpus_socket(const struct gpus *g)
{
    return g->link;
}
