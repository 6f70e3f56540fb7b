#include "kube/plugin.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "kube/config.h"
#include "kube/object.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { SAID_MAX = 4096, READ_SIZE = 16384 };

extern char **environ;

struct plugin {
    struct loop *loop;
    plugin_f done;
    void *arg;
    char *command, *version, *hint;
    pid_t pid;                         /* leads a group of its own */
    int pidfd, out, errors;            /* -1: closed */
    struct watch *watch, *watch_out, *watch_errors, *timer;
    struct buf text, said;
    bool late;
};

static void drain(int fd, struct buf *to)
{
    char piece[READ_SIZE];
    ssize_t n;

    while (fd >= 0 && (n = read(fd, piece, sizeof piece)) > 0)
        (void) buf_add(to, piece, (size_t) n);
    explicit_bzero(piece, sizeof piece);
}

static void plugin_free(struct plugin *p)
{
    watch_remove(p->watch);
    watch_remove(p->watch_out);
    watch_remove(p->watch_errors);
    watch_remove(p->timer);
    mem_closep(&p->pidfd);
    mem_closep(&p->out);
    mem_closep(&p->errors);
    if (p->text.data)
        explicit_bzero(p->text.data, p->text.len);
    buf_free(&p->text);
    buf_free(&p->said);
    free(p->command);
    free(p->version);
    free(p->hint);
    free(p);
}

/* The group is ours until the leader is reaped. */
static void end_group(const struct plugin *p)
{
    (void) kill(-p->pid, SIGKILL);
}

void plugin_cancel(struct plugin *p)
{
    if (!p)
        return;
    end_group(p);
    (void) waitpid(p->pid, NULL, 0);
    plugin_free(p);
}

/* ---- how it ended ---- */

/* The last line that it said, for the message. */
static void last_line(const struct buf *said, char *out, size_t size)
{
    const char *text = buf_text(said), *line = text;
    size_t len = said->len;

    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\n')
            line = text + i + 1;
    object_line(line, (size_t) (text + len - line), out, size);
}

static int result(struct plugin *p, const siginfo_t *end,
                  struct credential *ret, struct err *err)
{
    char line[200];
    int rc;

    last_line(&p->said, line, sizeof line);
    if (p->late)
        return err_set(err, ETIMEDOUT, "'%s' took longer than %d s and was "
                       "ended", p->command, PLUGIN_MS / 1000);
    if (end->si_code != CLD_EXITED || end->si_status != 0)
        return err_set(err, EKEYREJECTED, "'%s' ended with %s %d%s%s",
                       p->command, end->si_code == CLD_EXITED ? "status"
                                                              : "signal",
                       end->si_status, line[0] ? ": " : "", line);
    if (p->text.over)
        return err_set(err, EFBIG, "'%s' printed more than %d bytes",
                       p->command, CREDENTIAL_MAX);
    rc = credential_read(buf_text(&p->text), p->text.len, p->version, ret, err);
    return rc < 0 ? err_prefix(err, rc, "what '%s' printed", p->command) : 0;
}

static void on_end(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct plugin *p = arg;
    struct credential c = { 0 };
    struct err err = { 0 };
    siginfo_t end = { 0 };
    int rc;

    (void) w;
    (void) ready;
    if (waitid(P_PIDFD, (id_t) fd, &end, WEXITED | WNOWAIT) < 0)
        end.si_status = errno;         /* somebody else has reaped it */
    else
        end_group(p);                  /* what it left behind */
    (void) waitid(P_PIDFD, (id_t) fd, &end, WEXITED);
    drain(p->out, &p->text);
    drain(p->errors, &p->said);
    rc = result(p, &end, &c, &err);
    p->done(rc, &c, &err, p->arg);
    plugin_free(p);
}

static void on_late(struct watch *w, void *arg)
{
    struct plugin *p = arg;

    (void) w;
    p->timer = NULL;
    p->late = true;
    end_group(p);                      /* on_end follows */
}

/* At its end the descriptor sleeps: it would be ready for ever. */
static void on_bytes(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct plugin *p = arg;
    struct buf *to = fd == p->out ? &p->text : &p->said;
    char piece[READ_SIZE];
    ssize_t n = read(fd, piece, sizeof piece);

    (void) ready;
    if (n > 0)
        (void) buf_add(to, piece, (size_t) n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        watch_want(w, 0);
    explicit_bzero(piece, sizeof piece);
}

/* ---- how it starts ---- */

/* What Kubernetes' clients tell such a program. */
static char *info_text(const struct config *conf)
{
    autojson json_t *o = json_pack("{s:s, s:s, s:{s:b}}", "apiVersion",
                                   conf->exec->version, "kind",
                                   "ExecCredential", "spec", "interactive", 0);
    autofree char *text = NULL;
    json_t *cluster = json_object();

    mem_there(o);
    json_put_str(cluster, "server", conf->server);
    json_put_str(cluster, "tls-server-name", conf->server_name);
    if (conf->exec->cluster_info)
        json_put(json_object_get(o, "spec"), "cluster", json_incref(cluster));
    json_decref(cluster);
    text = json_text(o);
    return mem_printf("KUBERNETES_EXEC_INFO=%s", text);
}

/* Is the name of `entry` one that the list sets? */
static bool sets(char *const *list, size_t n, const char *entry)
{
    size_t len = strcspn(entry, "=") + 1;

    for (size_t i = 0; i < n; i++)
        if (strncmp(list[i], entry, len) == 0)
            return true;
    return false;
}

/* Theirs, and of ours what they do not set. */
static char **env_list(const struct config_exec *x, char *info)
{
    size_t n = 0, k = 0, count = 0;
    char **all;

    while (environ[n])
        n++;
    while (x->env && x->env[k])
        k++;
    all = mem_array(n + k + 2, sizeof *all);
    for (size_t i = 0; i < k; i++)
        if (strncmp(x->env[i], info, strcspn(info, "=") + 1) != 0)
            all[count++] = x->env[i];
    all[count++] = info;
    k = count;
    for (size_t i = 0; i < n; i++)
        if (!sets(all, k, environ[i]))
            all[count++] = environ[i];
    return all;                        /* ended by a NULL: it was zeroed */
}

static void set_up(posix_spawn_file_actions_t *files, posix_spawnattr_t *attr,
                   const int out[2], const int errors[2])
{
    sigset_t none, all;

    (void) posix_spawn_file_actions_init(files);
    (void) posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
    (void) posix_spawn_file_actions_adddup2(files, out[1], 1);
    (void) posix_spawn_file_actions_adddup2(files, errors[1], 2);
    (void) posix_spawnattr_init(attr);
    (void) sigemptyset(&none);
    (void) sigfillset(&all);
    (void) posix_spawnattr_setsigmask(attr, &none);
    (void) posix_spawnattr_setsigdefault(attr, &all);
    (void) posix_spawnattr_setpgroup(attr, 0);
    (void) posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK |
                                    POSIX_SPAWN_SETSIGDEF |
                                    POSIX_SPAWN_SETPGROUP);
}

static int spawn(struct plugin *p, const struct config *conf, const int out[2],
                 const int errors[2], struct err *err)
{
    autofree char *info = info_text(conf);
    autofree char **env = env_list(conf->exec, info);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    int rc;

    set_up(&files, &attr, out, errors);
    rc = posix_spawnp(&p->pid, p->command, &files, &attr, conf->exec->args,
                      env);
    (void) posix_spawn_file_actions_destroy(&files);
    (void) posix_spawnattr_destroy(&attr);
    if (rc == 0)
        return 0;
    return err_set(err, rc, "cannot run '%s': %s%s%s", p->command, strerror(rc),
                   p->hint ? "; " : "", p->hint ? p->hint : "");
}

static int watch_all(struct plugin *p, struct err *err)
{
    int rc;

    p->pidfd = (int) syscall(SYS_pidfd_open, p->pid, 0);
    if (p->pidfd < 0)
        return err_set(err, errno, "pidfd of '%s': %s", p->command,
                       strerror(errno));
    rc = loop_fd(p->loop, p->pidfd, LOOP_READ, on_end, p, &p->watch, err);
    if (rc == 0)
        rc = loop_fd(p->loop, p->out, LOOP_READ, on_bytes, p, &p->watch_out,
                     err);
    if (rc == 0)
        rc = loop_fd(p->loop, p->errors, LOOP_READ, on_bytes, p,
                     &p->watch_errors, err);
    p->timer = loop_timer(p->loop, PLUGIN_MS, on_late, p);
    return rc;
}

static int pipes(struct plugin *p, int *ret_out, int *ret_errors,
                 const struct config *conf, struct err *err)
{
    int out[2], errors[2], rc;

    if (pipe2(out, O_CLOEXEC) < 0)
        return err_set(err, errno, "pipe: %s", strerror(errno));
    if (pipe2(errors, O_CLOEXEC) < 0) {
        rc = err_set(err, errno, "pipe: %s", strerror(errno));
        (void) close(out[0]);
        (void) close(out[1]);
        return rc;
    }
    *ret_out = out[0];
    *ret_errors = errors[0];
    rc = fs_set_nonblock(out[0], err);
    if (rc == 0)
        rc = fs_set_nonblock(errors[0], err);
    if (rc == 0)
        rc = spawn(p, conf, out, errors, err);
    (void) close(out[1]);
    (void) close(errors[1]);
    return rc;
}

int plugin_start(struct loop *l, const struct config *conf, plugin_f done,
                 void *arg, struct plugin **ret, struct err *err)
{
    struct plugin *p = mem_new(sizeof *p);
    int rc;

    *p = (struct plugin) {
        .loop = l, .done = done, .arg = arg, .pidfd = -1, .out = -1,
        .errors = -1, .command = mem_str(conf->exec->command),
        .version = mem_str(conf->exec->version),
        .hint = mem_str(conf->exec->hint),
        .text = BUF_INIT(CREDENTIAL_MAX), .said = BUF_INIT(SAID_MAX),
    };
    rc = pipes(p, &p->out, &p->errors, conf, err);
    if (rc < 0) {
        plugin_free(p);
        return rc;
    }
    rc = watch_all(p, err);
    if (rc < 0) {
        plugin_cancel(p);
        return rc;
    }
    *ret = p;
    return 0;
}
