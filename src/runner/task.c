#include "runner/task.h"

#include "base/buf.h"
#include "base/mem.h"
#include "runner/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* The environment: defaults, then the task's own, then ours, which no task
 * may set for itself.
 */

struct env {
    char **list;
    size_t n, cap;
};

static void env_put(struct env *e, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void env_put(struct env *e, const char *key, const char *fmt, ...)
{
    size_t len = strlen(key), i = 0;
    autofree char *value = NULL;
    va_list ap;

    va_start(ap, fmt);
    value = mem_vprintf(fmt, ap);
    va_end(ap);
    while (i < e->n &&
           (strncmp(e->list[i], key, len) != 0 || e->list[i][len] != '='))
        i++;
    if (i == e->n) {
        if (e->n + 2 > e->cap) {
            e->cap = e->cap ? e->cap * 2 : 32;
            e->list = mem_grow(e->list, e->cap, sizeof *e->list);
        }
        e->list[e->n++] = NULL;
        e->list[e->n] = NULL;
    }
    free(e->list[i]);
    e->list[i] = mem_printf("%s=%s", key, value);
}

static const char *env_get(const struct env *e, const char *key)
{
    size_t len = strlen(key);

    for (size_t i = 0; i < e->n; i++)
        if (strncmp(e->list[i], key, len) == 0 && e->list[i][len] == '=')
            return e->list[i] + len + 1;
    return NULL;
}

/* In front of what the user has preloaded: who asks first is answered by us. */
static void put_gate(struct env *e, const struct task *t)
{
    const char *own = env_get(e, "LD_PRELOAD");

    if (!t->gate_lib)
        return;
    env_put(e, "LD_PRELOAD", "%s%s%s", t->gate_lib, own && *own ? ":" : "",
            own ? own : "");
    env_put(e, GATE_SOCKET_VAR, "%s", t->gate_socket);
    env_put(e, GATE_WAIT_VAR, "%s", "");           /* for ever */
}

/* A container has the devices of its lease and no other, however it calls them;
 * what it has besides, as an image may, a task without one does not see.
 */
static void put_own_devices(struct env *e, const struct order *o)
{
    const char *own = getenv("CUDA_VISIBLE_DEVICES");
    struct buf list = BUF_INIT(ORDER_DEVICES_MAX * 6);

    for (uint32_t i = 0; i < o->ndevices; i++)
        (void) buf_printf(&list, "%s%" PRIu32, i ? "," : "", i);
    env_put(e, "CUDA_VISIBLE_DEVICES", "%s",
            own && o->ndevices ? own : buf_text(&list));
    buf_free(&list);
}

/* By name where the gate is told the names: numbers depend on who counts. */
static void put_devices(struct env *e, const struct order *o)
{
    char list[ORDER_DEVICES_MAX * 6 + GATE_DEVICES * 64] = "";
    size_t at = 0;

    for (uint32_t i = 0; i < o->gate.nuuids; i++)
        at += (size_t) snprintf(list + at, sizeof list - at, "%s%s",
                                i ? "," : "", o->gate.uuid[i]);
    for (uint32_t i = 0; i < o->ndevices && !o->gate.nuuids; i++)
        at += (size_t) snprintf(list + at, sizeof list - at, "%s%" PRIu32,
                                i ? "," : "", o->devices[i]);
    env_put(e, "CUDA_VISIBLE_DEVICES", "%s", list);
}

static void put_simulated(struct env *e, const struct order *o)
{
    if (o->simulated && o->ndevices)
        env_put(e, "WEIR_SIMULATED_DEVICES", "1");
}

/* The container's own, which its image and its runtime have set. */
static void put_inherited(struct env *e)
{
    for (char **at = environ; *at; at++) {
        const char *value = strchr(*at, '=');
        autofree char *key = value ? mem_strn(*at, (size_t) (value - *at))
                                   : NULL;

        if (key && *key)
            env_put(e, key, "%s", value + 1);
    }
}

static char **make_env(const struct task *t)
{
    const struct order *o = t->order;
    struct env e = { 0 };
    const char *key;
    json_t *value;

    env_put(&e, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
            ":/sbin:/bin");
    env_put(&e, "HOME", "%s", t->account->home);
    env_put(&e, "USER", "%s", t->account->name);
    env_put(&e, "LOGNAME", "%s", t->account->name);
    env_put(&e, "SHELL", "%s", t->account->shell);
    env_put(&e, "LANG", "C.UTF-8");
    if (t->folder)
        put_inherited(&e);
    json_object_foreach(json_object_get(o->task, "env"), key, value)
        env_put(&e, key, "%s", json_string_value(value));
    env_put(&e, "WEIR_WORKLOAD", "%s", o->workload);
    env_put(&e, "WEIR_TASK", "%s", o->name);
    env_put(&e, "WEIR_TENANT", "%s", o->tenant);
    env_put(&e, "WEIR_RANK", "%" PRIu32, o->rank);
    env_put(&e, "WEIR_WORLD_SIZE", "%" PRIu32, o->ranks);
    env_put(&e, "WEIR_ATTEMPT", "%" PRIu32, o->attempt);
    env_put(&e, "WEIR_LEASE", "%s", t->lease);
    env_put(&e, "WEIR_BLOCK", "%s", t->block);
    env_put(&e, "WEIR_PROGRESS_FD", "%d", PROGRESS_FD);
    if (o->rendezvous)
        env_put(&e, "WEIR_RENDEZVOUS", "%s", o->rendezvous);
    if (t->folder)
        put_own_devices(&e, o);
    else
        put_devices(&e, o);
    put_simulated(&e, o);
    put_gate(&e, t);
    return e.list;
}

void task_prepare(struct task *t)
{
    t->env = make_env(t);
}

/* The child. */

/* Of a command that runs beside the task: that one's end says nothing about
 * the task, so it gets a line in the log and no more.
 */
static struct task_failure aside;

static _Noreturn void give_up(struct task *t, int status, const char *what,
                              const char *which)
{
    int code = errno;

    (void) snprintf(t->failure->text, sizeof t->failure->text,
                    "%s%s%s%s: %s", what, *which ? " '" : "", which,
                    *which ? "'" : "", strerror(code));
    t->failure->status = status;
    t->failure->code = code ? code : EINVAL;
    if (t->failure == &aside)
        (void) dprintf(t->out, "weir: checkpoint command: %s\n", aside.text);
    _exit(status);
}

/* A keeper that dies takes its task with it.  The wish is forgotten when the
 * user changes, and comes too late when the keeper is gone already.
 */
static void die_with(pid_t keeper)
{
    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper)
        _exit(1);
}

enum { FILES_USUAL = 1024 };

static void set_limits(struct task *t)
{
    struct rlimit core = { 0, 0 }, files;

    if (setrlimit(RLIMIT_CORE, &core) < 0)
        give_up(t, 126, "limit core files", "");
    /* The control plane raises its own; programs that use select() or close
     * everything up to the limit expect the usual one.  A container has what
     * it was given.
     */
    if (!t->folder && getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        files.rlim_cur > FILES_USUAL) {
        files.rlim_cur = FILES_USUAL;
        if (setrlimit(RLIMIT_NOFILE, &files) < 0)
            give_up(t, 126, "limit open files", "");
    }
}

/* Last of all: until it is another program this one needs memory itself, and
 * with it the task's may be used up already.
 */
static void limit_memory(struct task *t)
{
    struct rlimit data = { t->order->memory, t->order->memory };

    if (t->order->memory && !t->cgroup->memory && !t->cgroup->inside &&
        setrlimit(RLIMIT_DATA, &data) < 0)
        give_up(t, 126, "limit memory", "");
}

static void become_user(struct task *t)
{
    const struct account *a = t->account;

    /* In a container also with the groups that it has given, and as a root that
     * may not change users.
     */
    if (t->folder && a->uid == geteuid() && a->gid == getegid())
        return;
    if (geteuid() != 0) {
        if (a->uid == geteuid() && !t->folder)
            return;
        errno = EPERM;
        give_up(t, 126, "run as user", a->name);
    }
    if (setgroups(a->ngroups, a->groups) < 0 ||
        setresgid(a->gid, a->gid, a->gid) < 0 ||
        setresuid(a->uid, a->uid, a->uid) < 0)
        give_up(t, 126, "become user", a->name);
    if (a->uid != 0 && setuid(0) == 0) {
        errno = EPERM;
        give_up(t, 126, "give up root for user", a->name);
    }
}

/* The loader would go on without it, and say so in a line that nobody reads. */
static void need_gate(struct task *t)
{
    if (t->gate_lib && access(t->gate_lib, R_OK) < 0)
        give_up(t, 126, "preload the gate", t->gate_lib);
}

static void go_to_folder(struct task *t)
{
    const char *first = t->folder ? t->folder : t->account->home;

    if (chdir(first) < 0 && (t->folder || chdir("/") < 0))
        give_up(t, 126, "enter folder", t->folder ? t->folder : "/");
    if (t->order->dir && chdir(t->order->dir) < 0)
        give_up(t, 126, "enter folder", t->order->dir);
}

static void set_stdio(struct task *t)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (null < 0 || dup2(null, 0) < 0 || dup2(t->out, 1) < 0 ||
        dup2(t->out, 2) < 0)
        give_up(t, 126, "set standard input and output", "");
    /* Ours are all marked already; this holds for what a library opened. */
    (void) close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
    if (dup2(t->said, PROGRESS_FD) < 0)
        give_up(t, 126, "set the descriptor for progress", "");
}

/* The runner begins with none ignored; these are its own. */
static void reset_signals(void)
{
    sigset_t none;

    (void) signal(SIGPIPE, SIG_DFL);
    (void) signal(SIGHUP, SIG_DFL);
    (void) signal(SIGINT, SIG_DFL);
    (void) sigemptyset(&none);
    (void) sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void run(struct task *t, const char *text)
{
    const char *const shell[] = { "sh", "-c", text, NULL };
    const char *const *argv = text ? shell : t->order->argv;
    const char *file = text ? "/bin/sh" : argv[0];

    environ = t->env;                  /* execvp looks for PATH there */
    (void) execvp(file, (char *const *) (uintptr_t) argv);
    give_up(t, errno == ENOENT ? 127 : 126, "start", file);
}

/* What is known only now.  WEIR_PROGRESS is the way in for those who have lost
 * the descriptor, as children of many programs have.
 */
static void add_pid(struct task *t, pid_t main_pid, bool beside)
{
    struct env e = { .list = t->env };

    while (e.list[e.n])
        e.n++;
    e.cap = e.n + 1;
    env_put(&e, "WEIR_PROGRESS", "/proc/%ld/fd/%d",
            (long) (beside ? main_pid : getpid()), PROGRESS_FD);
    if (beside)
        env_put(&e, "WEIR_PID", "%ld", (long) main_pid);
    t->env = e.list;
}

_Noreturn void task_exec(struct task *t, bool tracked, const char *command,
                         pid_t main_pid)
{
    int rc;

    if (command)
        t->failure = &aside;
    if (t->order->image && !t->folder) {           /* never beside it, in the open */
        errno = ENOTSUP;
        give_up(t, 126, "run in an image, which this engine has not,",
                t->order->image);
    }
    (void) setsid();
    die_with(t->keeper);
    rc = cgroup_enter(t->cgroup, t->lease, tracked, t->order->memory);
    if (rc < 0) {
        errno = -rc;
        give_up(t, 126, "enter control group", "");
    }
    set_limits(t);
    become_user(t);
    die_with(t->keeper);
    (void) umask(022);
    need_gate(t);
    go_to_folder(t);
    set_stdio(t);
    reset_signals();
    add_pid(t, main_pid, command != NULL);
    limit_memory(t);
    run(t, command ? command : t->order->run);
}
