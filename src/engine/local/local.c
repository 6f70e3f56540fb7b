#include "engine/engine.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "engine/devices.h"
#include "engine/gpuask.h"
#include "engine/local/gpus.h"
#include "engine/logread.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* local - this machine is one block, "local", with one runner.
 *
 * The runner is looked for by the lock that it holds and watched by a pidfd;
 * it may be a child of ours or of a control plane before us.  It is there when
 * it has written down which limits hold here (DIR/limits: "cgroup2 PID").
 *
 *     get -> look -> lock is held -> watch it -> ready? -> block_up
 *                 -> lock is free -> start it ->   "
 *     it ended -> look again, later and later while it keeps ending
 *
 * With real devices the block is up once it is known which there are.
 */
enum {
    TOKEN_BYTES = 24,
    READY_MS = 5,              /* between looks for the limits */
    AGAIN_MIN_MS = 10,
    AGAIN_MAX_MS = 1000,
    STEADY_MS = 10000,         /* a runner that lived that long was sound */
    TOKEN_FILE_MAX = 256,
};

static const char block_id[] = "local";
static const char *const conf_keys[] = { "devices", "gpud", NULL };

struct local {
    struct engine base;
    struct loop *loop;
    const struct engine_events *events;
    void *arg;
    char *pool, *home, *runner, *dir, *token_file;
    char token[2 * TOKEN_BYTES + 1];
    uint64_t log_bytes;
    json_t *devices;
    struct gpus *gpus;         /* or NULL: `devices` are simulated */
    bool gated;                /* simulated devices with a gate: for tests */
    bool wanted, up;
    pid_t pid;                 /* of the runner */
    int pidfd;                 /* -1: not found */
    struct watch *watch, *timer;
    uint64_t since_ms, again_ms;
};

static void on_look(struct watch *w, void *arg);

static void trouble(struct local *e, const char *text)
{
    e->events->trouble(text, e->arg);
}

static char *path_of(const struct local *e, const char *name)
{
    return mem_printf("%s/%s", e->dir, name);
}

/* The pid of who holds the runner's lock; 0: nobody. */
static pid_t lock_holder(const struct local *e)
{
    autofree char *path = path_of(e, "runner.lock");
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    char text[32];
    ssize_t n;

    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0)
        return 0;
    n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return (pid_t) strtol(text, NULL, 10);
}

static void look_later(struct local *e, uint64_t ms)
{
    watch_remove(e->timer);
    e->timer = loop_timer(e->loop, ms, on_look, e);
}

static void let_go(struct local *e)
{
    watch_remove(take(e->watch));
    watch_remove(take(e->timer));
    if (e->pidfd >= 0)
        (void) close(take_fd(e->pidfd));
    e->up = false;
}

static void on_ended(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct local *e = arg;
    siginfo_t info = { 0 };

    (void) w;
    (void) ready;
    /* Fails when it is no child of ours; then somebody else reaps it. */
    (void) waitid(P_PIDFD, (id_t) fd, &info, WEXITED | WNOHANG);
    let_go(e);
    if (!e->wanted)
        return;
    if (loop_now(e->loop) - e->since_ms >= STEADY_MS)
        e->again_ms = AGAIN_MIN_MS;
    trouble(e, "the runner ended; it is started again");
    look_later(e, e->again_ms);
    e->again_ms = e->again_ms * 2 > AGAIN_MAX_MS ? AGAIN_MAX_MS
                                                 : e->again_ms * 2;
}

/* Inventory. */

static uint64_t machine_memory(void)
{
    autofree char *text = NULL;
    const char *at;

    if (fs_read("/proc/meminfo", 65536, &text, NULL, NULL) < 0)
        return 0;
    at = strstr(text, "MemTotal:");
    return at ? strtoull(at + strlen("MemTotal:"), NULL, 10) * 1024 : 0;
}

static uint64_t machine_cpus(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (uint64_t) CPU_COUNT(&set);
    return (uint64_t) sysconf(_SC_NPROCESSORS_ONLN);
}

static bool simulated(const struct local *e)
{
    return e->gpus ? gpus_simulated(e->gpus) : json_array_size(e->devices) > 0;
}

static json_t *node_json(const struct local *e)
{
    const json_t *devices = e->gpus ? gpus_list(e->gpus) : e->devices;
    json_t *n = json_object();
    char host[128] = "localhost";

    (void) gethostname(host, sizeof host - 1);
    json_put_str(n, "block", block_id);
    json_put_str(n, "node", host);
    json_put_u64(n, "cpus_milli", machine_cpus() * 1000);
    json_put_u64(n, "memory", machine_memory());
    json_put_bool(n, "simulated", simulated(e));
    json_put(n, "devices", devices ? json_deep_copy(devices) : json_array());
    if (e->gated || (e->gpus && json_array_size(devices)))
        json_put_bool(n, "stages", true);
    if (e->gpus && json_array_size(devices))
        json_put_bool(n, "suspends", true);
    return n;
}

static json_t *local_inventory(struct engine *base)
{
    struct local *e = (struct local *) base;
    json_t *nodes = json_array();
    json_t *j = json_object();

    (void) json_array_append_new(nodes, node_json(e));
    json_put(j, "nodes", nodes);
    return j;
}

static void say_up(struct local *e, const char *limits)
{
    autojson json_t *j = node_json(e);

    json_put_str(j, "pool", e->pool);
    json_put_str(j, "engine", "local");
    json_put_str(j, "limits", limits);
    e->up = true;
    e->events->state(true, "", e->arg);
    e->events->block_up(block_id, e->token, j, e->arg);
}

/* The runner. */

static int watch_pid(struct local *e, pid_t pid, struct err *err)
{
    autoclose int fd = (int) syscall(SYS_pidfd_open, pid, 0);
    int rc;

    if (fd < 0)
        return err_set(err, errno, "pidfd of %ld: %s", (long) pid,
                       strerror(errno));
    rc = loop_fd(e->loop, fd, LOOP_READ, on_ended, e, &e->watch, err);
    if (rc < 0)
        return rc;
    e->pidfd = take_fd(fd);
    e->pid = pid;
    e->since_ms = loop_now(e->loop);
    return 0;
}

static int spawn(const struct local *e, pid_t *ret, struct err *err)
{
    char bytes[32];
    const char *const argv[] = {
        e->runner, "--block", block_id, "--home", e->home, "--dir", e->dir,
        "--token-file", e->token_file, "--log-bytes", bytes,
        "--gpud", e->gpus ? gpus_socket(e->gpus) : GPUASK_SOCKET,
        e->gated || (e->gpus && simulated(e)) ? "--gate-simulated" : NULL,
        NULL,
    };
    const char *const env[] = {
        "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", NULL,
    };
    posix_spawnattr_t attr;
    sigset_t none, all;
    int rc;

    (void) snprintf(bytes, sizeof bytes, "%" PRIu64, e->log_bytes);
    (void) sigemptyset(&none);
    (void) sigfillset(&all);
    (void) posix_spawnattr_init(&attr);
    (void) posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID |
                                    POSIX_SPAWN_SETSIGMASK |
                                    POSIX_SPAWN_SETSIGDEF);
    (void) posix_spawnattr_setsigmask(&attr, &none);
    (void) posix_spawnattr_setsigdefault(&attr, &all);
    rc = posix_spawn(ret, e->runner, NULL, &attr,
                     (char *const *) (uintptr_t) argv,
                     (char *const *) (uintptr_t) env);
    (void) posix_spawnattr_destroy(&attr);
    return rc ? err_set(err, rc, "start '%s': %s", e->runner, strerror(rc))
              : 0;
}

static int start_runner(struct local *e, struct err *err)
{
    pid_t pid = 0;
    int rc = spawn(e, &pid, err);

    return rc < 0 ? rc : watch_pid(e, pid, err);
}

/* One found by its lock: still held after the pidfd was opened, so the pidfd
 * is the holder's.
 */
static int find_runner(struct local *e, pid_t pid, struct err *err)
{
    int rc = watch_pid(e, pid, err);

    if (rc == 0 && lock_holder(e) != pid) {
        let_go(e);
        return err_set(err, ESRCH, "the runner ended just now");
    }
    return rc;
}

/* Has this very runner written which limits hold? */
static bool read_limits(const struct local *e, char *ret, size_t size)
{
    autofree char *path = path_of(e, "limits");
    autofree char *text = NULL;
    char *space;

    if (fs_read(path, 64, &text, NULL, NULL) < 0)
        return false;
    space = strchr(text, ' ');
    if (!space || strtol(space + 1, NULL, 10) != e->pid)
        return false;
    *space = '\0';
    (void) snprintf(ret, size, "%s", text);
    return true;
}

/* Called until the runner is there and ready. */
static void on_look(struct watch *w, void *arg)
{
    struct local *e = arg;
    struct err err = { 0 };
    char limits[32];
    pid_t pid;
    int rc = 0;

    (void) w;
    e->timer = NULL;
    if (!e->wanted || e->up || (e->gpus && !gpus_list(e->gpus)))
        return;
    if (e->pidfd < 0) {
        pid = lock_holder(e);
        rc = pid ? find_runner(e, pid, &err) : start_runner(e, &err);
    }
    if (rc < 0) {
        trouble(e, err.text);
        e->events->state(false, err.text, e->arg);
        look_later(e, AGAIN_MAX_MS);
    } else if (read_limits(e, limits, sizeof limits)) {
        say_up(e, limits);
    } else {
        look_later(e, READY_MS);
    }
}

static int check_id(const char *block, struct err *err)
{
    if (strcmp(block, block_id) == 0)
        return 0;
    return err_set(err, ENOENT, "block '%s': this engine has only '%s'",
                   block, block_id);
}

static int local_get(struct engine *base, const char *block, struct err *err)
{
    struct local *e = (struct local *) base;
    int rc = check_id(block, err);

    if (rc < 0)
        return rc;
    e->wanted = true;
    e->up = false;                     /* asked again: answered again */
    look_later(e, 0);
    return 0;
}

static int local_give(struct engine *base, const char *block, struct err *err)
{
    struct local *e = (struct local *) base;
    int rc = check_id(block, err);

    if (rc == 0)
        e->wanted = false;
    return rc;
}

static json_t *local_find(struct engine *base)
{
    struct local *e = (struct local *) base;
    json_t *list = json_array();

    if (lock_holder(e))
        (void) json_array_append_new(list, json_string(block_id));
    return list;
}

static int local_log(struct engine *base, const char *block,
                     const char *lease_key, uint32_t gen, uint64_t epoch,
                     uint64_t offset, void *buf, size_t size,
                     struct engine_log *ret, struct err *err)
{
    struct local *e = (struct local *) base;
    int rc = block ? check_id(block, err) : 0;

    return rc < 0 ? rc : logread_log(e->dir, lease_key, gen, epoch, offset,
                                     buf, size, ret, err);
}

static json_t *local_log_list(struct engine *base)
{
    return logread_list(((struct local *) base)->dir);
}

static int local_log_drop(struct engine *base, uint64_t workload,
                          struct err *err)
{
    return logread_drop(((struct local *) base)->dir, workload, err);
}

/* Open and close. */

/* The block's token: made once, kept for the runner that is there already. */
static int get_token(struct local *e, struct err *err)
{
    autofree char *text = NULL;
    int rc = fs_read(e->token_file, TOKEN_FILE_MAX, &text, NULL, NULL);

    if (rc == 0 && strspn(text, "0123456789abcdef") == 2 * TOKEN_BYTES) {
        (void) snprintf(e->token, sizeof e->token, "%.*s", 2 * TOKEN_BYTES,
                        text);
        return 0;
    }
    fs_random_hex(e->token, TOKEN_BYTES);
    return fs_write(e->token_file, e->token, strlen(e->token), 0600, true,
                    err);
}

static void local_close(struct engine *base)
{
    struct local *e = (struct local *) base;

    if (!e)
        return;
    let_go(e);
    gpus_close(e->gpus);
    json_decref(e->devices);
    free(e->pool);
    free(e->home);
    free(e->runner);
    free(e->dir);
    free(e->token_file);
    free(e);
}

static void on_gpus(void *arg)
{
    struct local *e = arg;

    e->up = false;                     /* as it is, the block is another one */
    look_later(e, 0);
}

static void on_gpu_trouble(const char *text, void *arg)
{
    trouble(arg, text);
}

/* weir-gpud stands beside weir-runner. */
static void open_gpus(struct local *e, const struct engine_conf *conf)
{
    const char *slash = strrchr(conf->runner, '/');
    autofree char *program =
        mem_printf("%.*sweir-gpud",
                   slash ? (int) (slash - conf->runner) + 1 : 0, conf->runner);
    struct gpus_conf g = {
        .dir = e->dir, .program = program,
        .socket = json_get_str(conf->conf, "gpud", NULL),
        .changed = on_gpus, .trouble = on_gpu_trouble, .arg = e,
    };

    e->gpus = gpus_open(e->loop, &g);
}

/* "gated:" instead of "sim:" puts the gate in front of them, and lets tasks
 * stand ready there.
 */
static int read_devices(struct local *e, const char *text, struct err *err)
{
    if (strcmp(text, "auto") == 0)
        text = "none";                 /* of the simulated ones */
    e->gated = strncmp(text, "gated:", strlen("gated:")) == 0;
    return devices_parse(text, e->gated ? "gated" : "sim", &e->devices, err);
}

static int local_check(const json_t *conf, bool observe, struct err *err)
{
    (void) observe;
    const char *devices = json_get_str(conf, "devices", "none");
    struct local e = { 0 };
    int rc = engine_conf_keys(conf, conf_keys, err);

    if (rc == 0)
        rc = read_devices(&e, devices, err);
    json_decref(e.devices);
    return rc;
}

static int local_open(struct loop *l, const struct engine_conf *conf,
                      const struct engine_events *events, void *arg,
                      struct engine **ret, struct err *err)
{
    const char *devices = json_get_str(conf->conf, "devices", "none");
    struct local *e = mem_new(sizeof *e);
    int rc;

    *e = (struct local) {
        .base.ops = &engine_local, .loop = l, .events = events, .arg = arg,
        .pool = mem_str(conf->pool), .home = mem_str(conf->home),
        .runner = mem_str(conf->runner), .log_bytes = conf->log_bytes,
        .dir = mem_printf("%s/%s", conf->state_dir, block_id),
        .token_file = mem_printf("%s/%s.token", conf->state_dir, block_id),
        .pidfd = -1, .again_ms = AGAIN_MIN_MS,
    };
    rc = read_devices(e, devices, err);
    if (rc == 0)
        rc = fs_mkdir(conf->state_dir, 0700, err);
    if (rc == 0)
        rc = fs_mkdir(e->dir, 0700, err);
    if (rc == 0)
        rc = get_token(e, err);
    if (rc < 0) {
        local_close(&e->base);
        return rc;
    }
    if (strcmp(devices, "auto") == 0)
        open_gpus(e, conf);
    *ret = &e->base;
    return 0;
}

const struct engine_ops engine_local = {
    .name = "local",
    .grain = ENGINE_GRAIN_DEVICE,
    .own = true,
    .check = local_check,
    .open = local_open,
    .close = local_close,
    .inventory = local_inventory,
    .history = engine_no_history,
    .get = local_get,
    .give = local_give,
    .start = engine_no_start,
    .stop = engine_no_stop,
    .output = engine_no_output,
    .tell = engine_no_tell,
    .find = local_find,
    .log = local_log,
    .log_list = local_log_list,
    .log_drop = local_log_drop,
};
