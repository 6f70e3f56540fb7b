#include "cli/verbs.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/call.h"
#include "cli/print.h"

#include <stdio.h>
#include <string.h>

/* The scripts are written out of the rows of the verbs.  Names of things are
 * asked for while completing, by `weir completion --ids KIND`, which says
 * nothing when there is no server.
 */
enum { SCRIPT_MAX = 1024 * 1024 };

struct completion_opts {
    const char *ids;
};

static const struct opt completion_opts[] = {
    { "ids", 0, "KIND", "the names there are, for the scripts: workload, "
      "pool, node, tenant or token", OPT_TEXT,
      offsetof(struct completion_opts, ids) },
    { .kind = OPT_END },
};

static const char *kind_of(enum verb_arg a)
{
    switch (a) {
    case ARG_FILE:     return "file";
    case ARG_WORKLOAD: return "workload";
    case ARG_POOL:     return "pool";
    case ARG_TENANT:   return "tenant";
    case ARG_NODE:     return "node";
    case ARG_TOKEN:    return "token";
    case ARG_SHELL:    return "shell";
    case ARG_NONE:     break;
    }
    return "none";
}

/* ---- the names there are ---- */

static int print_ids(struct cli *c, const char *kind)
{
    static const struct { const char *kind, *path, *key; } lists[] = {
        { "workload", "/v1/workloads?limit=100&fields=id", "id" },
        { "pool", "/v1/pools", "name" },
        { "tenant", "/v1/tenants", "name" },
        { "token", "/v1/tokens", "id" },
        { "node", "/v1/pools", "name" },
    };
    const json_t *items, *j, *n;
    size_t i, k;

    for (size_t l = 0; l < array_size(lists); l++) {
        autojson json_t *reply = NULL;

        if (strcmp(kind, lists[l].kind) != 0)
            continue;
        c->muted = true;
        if (call_json(c, "GET", lists[l].path, NULL, &reply) != 0)
            return 0;
        items = json_object_get(reply, "items");
        json_array_foreach(items, i, j) {
            if (strcmp(kind, "node") != 0) {
                puts(json_get_str(j, lists[l].key, ""));
                continue;
            }
            json_array_foreach(json_object_get(j, "nodes"), k, n)
                puts(json_get_str(n, "name", ""));
        }
        return 0;
    }
    return cli_fail(c, CLI_USAGE, "--ids: unknown kind '%s'", kind);
}

/* ---- words ---- */

/* The first words: plain verbs, and each noun once. */
static void add_first_words(struct buf *b)
{
    for (size_t i = 0; cli_verbs[i]; i++) {
        const char *name = cli_verbs[i]->name;
        size_t n = strcspn(name, " ");
        bool seen = i > 0 && strncmp(cli_verbs[i - 1]->name, name, n) == 0 &&
                    cli_verbs[i - 1]->name[n] == name[n];

        if (!seen)
            buf_printf(b, " %.*s", (int) n, name);
    }
    buf_str(b, " help");
}

static void add_options(struct buf *b, const struct opt *o)
{
    for (; o->kind != OPT_END; o++)
        buf_printf(b, " --%s", o->name);
}

/* Is verb i the first of its noun?  *ret_len is the noun's length. */
static bool begins_noun(size_t i, size_t *ret_len)
{
    const char *name = cli_verbs[i]->name;
    size_t n = strcspn(name, " ");

    *ret_len = n;
    return name[n] && (i == 0 ||
                       strncmp(cli_verbs[i - 1]->name, name, n + 1) != 0);
}

static void add_second_words(struct buf *b, const char *noun, size_t n)
{
    for (size_t i = 0; cli_verbs[i]; i++) {
        const char *name = cli_verbs[i]->name;

        if (strncmp(name, noun, n) == 0 && name[n] == ' ')
            buf_printf(b, " %s", name + n + 1);
    }
}

/* " | pool | node": a pattern of the words that want a second one. */
static void add_nouns(struct buf *b)
{
    size_t n;

    for (size_t i = 0; cli_verbs[i]; i++) {
        if (begins_noun(i, &n))
            buf_printf(b, " | %.*s", (int) n, cli_verbs[i]->name);
    }
}

/* ---- bash ---- */

static void add_bash_cases(struct buf *b)
{
    size_t n;

    for (size_t i = 0; cli_verbs[i]; i++) {
        const struct verb *v = cli_verbs[i];

        if (begins_noun(i, &n)) {
            buf_printf(b, "    '%.*s') words='", (int) n, v->name);
            add_second_words(b, v->name, n);
            buf_str(b, "' ;;\n");
        }
        buf_printf(b, "    '%s') kind=%s options='", v->name,
                   kind_of(v->arg));
        add_options(b, v->opts);
        buf_str(b, "' ;;\n");
    }
}

static void add_bash(struct buf *b)
{
    buf_str(b,
        "# bash completion of weir; put it into a file of\n"
        "# ~/.local/share/bash-completion/completions/ called weir\n"
        "_weir()\n"
        "{\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]}\n"
        "    local prev=${COMP_WORDS[COMP_CWORD-1]}\n"
        "    local verb='' words='' kind='' options='' i word\n"
        "    COMPREPLY=()\n"
        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "        word=${COMP_WORDS[i]}\n"
        "        [[ $word == -- ]] && { _weir_command; return; }\n"
        "        [[ $word == -* ]] && continue\n"
        "        case $verb in\n"
        "        ''");
    add_nouns(b);
    buf_str(b,
        ")\n"
        "            verb=${verb:+$verb }$word ;;\n"
        "        esac\n"
        "    done\n"
        "    case $prev in\n"
        "    -o | --output)\n"
        "        COMPREPLY=($(compgen -W 'table wide json' -- \"$cur\"))\n"
        "        return ;;\n"
        "    --tenant)\n"
        "        COMPREPLY=($(compgen -W \"$(weir completion --ids tenant "
        "2>/dev/null)\" -- \"$cur\"))\n"
        "        return ;;\n"
        "    --socket | --token-file | --ca | --cert | --cert-key | --state "
        "| --tls-* | --dir | --runner)\n"
        "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
        "        return ;;\n"
        "    esac\n"
        "    case $verb in\n"
        "    '') words='");
    add_first_words(b);
    buf_str(b, "' ;;\n");
    add_bash_cases(b);
    buf_str(b,
        "    esac\n"
        "    if [[ $cur == -* ]]; then\n"
        "        COMPREPLY=($(compgen -W \"$options");
    add_options(b, cli_common);
    buf_str(b,
        "\" -- \"$cur\"))\n"
        "        return\n"
        "    fi\n"
        "    case $kind in\n"
        "    file) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n"
        "    shell) COMPREPLY=($(compgen -W 'bash zsh fish' -- \"$cur\")) ;;\n"
        "    '' | none) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
        "    *) COMPREPLY=($(compgen -W \"$(weir completion --ids \"$kind\" "
        "2>/dev/null)\" -- \"$cur\")) ;;\n"
        "    esac\n"
        "}\n"
        "_weir_command()\n"
        "{\n"
        "    COMPREPLY=($(compgen -c -f -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
        "}\n"
        "complete -o filenames -F _weir weir\n");
}

/* zsh runs the same function. */
static void add_zsh(struct buf *b)
{
    buf_str(b,
        "#compdef weir\n"
        "# zsh completion of weir; put it into a file of $fpath called "
        "_weir,\n"
        "# or source it from ~/.zshrc after compinit\n"
        "autoload -U +X bashcompinit && bashcompinit\n");
    add_bash(b);
}

/* ---- fish ---- */

/* A quoted text of fish. */
static void add_quoted(struct buf *b, const char *s)
{
    buf_char(b, '\'');
    for (; *s; s++) {
        if (*s == '\'' || *s == '\\')
            buf_char(b, '\\');
        buf_char(b, *s);
    }
    buf_char(b, '\'');
}

static void add_fish_options(struct buf *b, const char *when,
                             const struct opt *o)
{
    for (; o->kind != OPT_END; o++) {
        buf_printf(b, "complete -c weir -n '%s' -l %s", when, o->name);
        if (o->letter)
            buf_printf(b, " -s %c", o->letter);
        buf_str(b, o->arg ? " -r -d " : " -d ");
        add_quoted(b, o->help);
        buf_char(b, '\n');
    }
}

static void add_fish_verb(struct buf *b, size_t i)
{
    const struct verb *v = cli_verbs[i];
    const char *kind = kind_of(v->arg);
    autofree char *when = NULL;
    size_t n;

    if (begins_noun(i, &n))
        buf_printf(b, "complete -c weir -f -n '__weir_at' -a %.*s\n", (int) n,
                   v->name);
    n = strcspn(v->name, " ");
    if (v->name[n])
        buf_printf(b, "complete -c weir -f -n '__weir_at %.*s' -a %s -d ",
                   (int) n, v->name, v->name + n + 1);
    else
        buf_printf(b, "complete -c weir -f -n '__weir_at' -a %s -d ",
                   v->name);
    add_quoted(b, v->summary);
    buf_char(b, '\n');
    when = mem_printf("__weir_in %s", v->name);
    add_fish_options(b, when, v->opts);
    add_fish_options(b, when, cli_common);
    if (v->arg == ARG_SHELL)
        buf_printf(b, "complete -c weir -f -n '%s' -a 'bash zsh fish'\n",
                   when);
    else if (v->arg == ARG_FILE)
        buf_printf(b, "complete -c weir -F -n '%s'\n", when);
    else if (v->arg != ARG_NONE)
        buf_printf(b, "complete -c weir -f -n '%s' -a '(weir completion "
                   "--ids %s 2>/dev/null)'\n", when, kind);
}

static void add_fish(struct buf *b)
{
    buf_str(b,
        "# fish completion of weir; put it into\n"
        "# ~/.config/fish/completions/weir.fish\n"
        "function __weir_words\n"
        "    set -l words (commandline -opc)\n"
        "    set -e words[1]\n"
        "    string match -v -- '-*' $words\n"
        "end\n"
        "# Exactly these words were typed so far.\n"
        "function __weir_at\n"
        "    test (string join ' ' (__weir_words)) = (string join ' ' $argv)\n"
        "end\n"
        "# These words, and perhaps arguments.\n"
        "function __weir_in\n"
        "    string match -q -- (string join ' ' $argv)' *' "
        "(string join ' ' (__weir_words))' '\n"
        "end\n");
    for (size_t i = 0; cli_verbs[i]; i++)
        add_fish_verb(b, i);
}

/* ---- the verb ---- */

static int run_completion(struct cli *c, const void *opts)
{
    const struct completion_opts *o = opts;
    autobuf struct buf b = BUF_INIT(SCRIPT_MAX);
    const char *shell = c->nargs ? c->args[0] : "";

    if (o->ids)
        return print_ids(c, o->ids);
    if (strcmp(shell, "bash") == 0)
        add_bash(&b);
    else if (strcmp(shell, "zsh") == 0)
        add_zsh(&b);
    else if (strcmp(shell, "fish") == 0)
        add_fish(&b);
    else if (shell[0])
        return cli_fail(c, CLI_USAGE, "unknown shell '%s'; expected bash, zsh "
                        "or fish", shell);
    else
        return cli_fail(c, CLI_USAGE, "for which shell? bash, zsh or fish");
    return print_buf(c, &b);
}

const struct verb verb_completion = {
    .name = "completion",
    .summary = "print the completion script of a shell",
    .usage = "bash|zsh|fish",
    .about = "",
    .examples = "source <(weir completion bash)    # for this shell, now\n"
                "weir completion fish > ~/.config/fish/completions/weir.fish",
    .opts = completion_opts,
    .size = sizeof(struct completion_opts),
    .max_args = 1,
    .arg = ARG_SHELL,
    .run = run_completion,
};
