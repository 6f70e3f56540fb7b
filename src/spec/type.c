#include "spec/type.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/near.h"
#include "base/quantity.h"
#include "spec/reader.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* A text field takes any scalar as it is written: `run: true` is the program
 * true, and an environment variable may be a number.
 */
#define ANY_TEXT "\"type\":[\"string\",\"number\",\"boolean\"]"
/* A number, the same as text, or a text with "{{ name }}" in it. */
#define NUMBER(min, pattern) \
    "{\"anyOf\":[{\"type\":\"number\",\"minimum\":" min "}," \
    "{\"type\":\"string\",\"pattern\":\"" pattern "\"}," \
    "{\"$ref\":\"#/$defs/template\"}]}"
#define INTEGER(min, pattern) \
    "{\"anyOf\":[{\"type\":\"integer\",\"minimum\":" min "}," \
    "{\"type\":\"string\",\"pattern\":\"" pattern "\"}," \
    "{\"$ref\":\"#/$defs/template\"}]}"
#define DURATION "([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?"

static void put_text(struct reader *r, const struct field *f, void *base,
                     const char *text)
{
    const char **member = field_member(f, base);

    *member = spec_str(r->spec, text, strlen(text));
}

static void put_u32(const struct field *f, void *base, uint64_t value)
{
    *(uint32_t *) field_member(f, base) = (uint32_t) value;
}

static void put_u64(const struct field *f, void *base, uint64_t value)
{
    *(uint64_t *) field_member(f, base) = value;
}

/* -- texts ---------------------------------------------------------------- */

static void read_text(struct reader *r, const struct field *f,
                      const struct node *n, void *base)
{
    const char *s = reader_text(r, n, f->type->expected);

    if (!s)
        return;
    if (!s[0])
        reader_problem(r, n, "expected %s, got an empty one",
                       f->type->expected);
    else if (strlen(s) > SPEC_MAX_TEXT)
        reader_problem(r, n, "%zu bytes long; at most %d are allowed",
                       strlen(s), SPEC_MAX_TEXT);
    else
        put_text(r, f, base, s);
}

static void read_name(struct reader *r, const struct field *f,
                      const struct node *n, void *base)
{
    const char *s = reader_text(r, n, f->type->expected);

    if (s && !spec_name_valid(s))
        reader_problem(r, n, "expected %s, got '%s'", f->type->expected,
                       quoted(s).s);
    else if (s)
        put_text(r, f, base, s);
}

static void read_metric(struct reader *r, const struct field *f,
                        const struct node *n, void *base)
{
    const char *s = reader_text(r, n, f->type->expected);

    if (s && (!s[0] || strlen(s) > 31 || strpbrk(s, " \t=")))
        reader_problem(r, n, "expected %s, got '%s'", f->type->expected,
                       quoted(s).s);
    else if (s)
        put_text(r, f, base, s);
}

static void read_path(struct reader *r, const struct field *f,
                      const struct node *n, void *base)
{
    const char *s = reader_text(r, n, f->type->expected);

    if (s && s[0] != '/')
        reader_problem(r, n, "expected %s, got '%s'", f->type->expected,
                       quoted(s).s);
    else if (s && strlen(s) >= PATH_MAX)
        reader_problem(r, n, "longer than %d bytes", PATH_MAX - 1);
    else if (s)
        put_text(r, f, base, s);
}

const struct type type_text = {
    .expected = "a text",
    .read = read_text,
    .schema = "{" ANY_TEXT ",\"minLength\":1}",
};

#define NAME \
    "{\"anyOf\":[{\"type\":[\"string\",\"integer\"],\"pattern\":" \
    "\"^[A-Za-z0-9][A-Za-z0-9_.-]*$\",\"maxLength\":128}," \
    "{\"$ref\":\"#/$defs/template\"}]}"

const struct type type_name = {
    .expected = "a name (a letter or digit, then letters, digits, '_', '.' "
                "and '-', at most 128)",
    .read = read_name,
    .schema = NAME,
};
const struct type type_together = {
    .expected = "a name that the tasks of one set share",
    .read = read_name,
    .schema = NAME,
};
const struct type type_metric = {
    .expected = "the name of a metric, such as loss",
    .read = read_metric,
    .schema = "{\"type\":\"string\",\"minLength\":1}",
};
const struct type type_path = {
    .expected = "an absolute path such as /data",
    .read = read_path,
    .schema = "{\"type\":\"string\",\"pattern\":\"^(/|.*\\\\{\\\\{)\"}",
};

/* -- one of some words ---------------------------------------------------- */

static void unknown_word(struct reader *r, const struct node *n,
                         const char *const *words, const char *got)
{
    autobuf struct buf list = BUF_INIT(1024);
    struct near near;

    near_init(&near, got);
    for (size_t i = 0; words[i]; i++) {
        buf_str(&list, i == 0 ? "" : words[i + 1] ? ", " : " or ");
        buf_str(&list, words[i]);
        near_try(&near, words[i]);
    }
    reader_problem_near(r, n, &near, "", "expected %s, got '%s'",
                        buf_text(&list), quoted(got).s);
}

static int word_index(const char *const *words, const char *s)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], s) == 0)
            return i;
    return -1;
}

static void read_word(struct reader *r, const struct field *f,
                      const struct node *n, void *base)
{
    const char *s = reader_text(r, n, f->type->expected);
    int i = s ? word_index(f->words, s) : -1;

    if (i >= 0)
        *(unsigned *) field_member(f, base) = (unsigned) i;
    else if (s)
        unknown_word(r, n, f->words, s);
}

const struct type type_word = { .expected = "a word", .read = read_word };
const struct type type_kind = { .expected = "'pipeline' or 'job'",
                                .read = read_word };

const char *const type_signal_words[] = {
#define X(name) #name,
    SPEC_SIGNALS(X)
#undef X
    NULL
};

static void read_signal(struct reader *r, const struct field *f,
                        const struct node *n, void *base)
{
    const char *s = reader_text(r, n, f->type->expected);

    if (s && spec_signal_parse(s, field_member(f, base)) < 0)
        unknown_word(r, n, f->words, s);
}

const struct type type_signal = {
    .expected = "the name of a signal, such as USR1",
    .read = read_signal,
};

/* What a task may ask to be tried again for.  An attempt that lost its place is
 * always tried again, and whoever aborts or runs out of a limit does not want
 * another.
 */
const char *const type_cause_words[] = {
    "failed", "signalled", "timeout", "memory", "refused", "image", NULL
};

static bool is_of_place(const char *word)
{
    enum spec_cause c;

    return spec_cause_parse(word, &c) == 0 && spec_cause_of_place(c);
}

static void read_causes(struct reader *r, const struct field *f,
                        const struct node *n, void *base)
{
    uint32_t bits = 0;

    if (n->kind != NODE_LIST || n->count == 0 ||
        n->count >= array_size(type_cause_words)) {
        reader_expected(r, n, f->type->expected);
        return;
    }
    for (uint32_t i = 0; i < n->count; i++) {
        const char *s = reader_text(r, n->items[i], f->type->expected);
        enum spec_cause c;

        if (s && word_index(f->words, s) >= 0 && spec_cause_parse(s, &c) == 0)
            bits |= 1u << c;
        else if (s && is_of_place(s))
            reader_problem(r, n->items[i], "an attempt that lost its place is "
                           "always tried again and not counted; leave '%s' "
                           "out", s);
        else if (s)
            unknown_word(r, n->items[i], f->words, s);
    }
    put_u32(f, base, bits);
}

const struct type type_causes = {
    .expected = "a list of causes such as [failed, timeout]",
    .read = read_causes,
};

/* -- numbers -------------------------------------------------------------- */

/* A number by one of the readers of base/quantity.h, from least to most. */
static bool read_quantity(struct reader *r, const struct field *f,
                          const struct node *n,
                          int (*parse)(const char *, uint64_t *, struct err *),
                          uint64_t least, uint64_t most, uint64_t *ret)
{
    const char *s = reader_text(r, n, f->type->expected);
    uint64_t value;

    if (!s)
        return false;
    if (parse(s, &value, NULL) < 0 || value < least || value > most) {
        reader_problem(r, n, "expected %s, got '%s'", f->type->expected,
                       quoted(s).s);
        return false;
    }
    *ret = value;
    return true;
}

static void read_gpus(struct reader *r, const struct field *f,
                      const struct node *n, void *base)
{
    uint64_t v;

    if (!read_quantity(r, f, n, quantity_milli, 0, SPEC_MAX_GPUS * 1000u, &v))
        return;
    if (v > 1000 && v % 1000)
        reader_problem(r, n, "expected %s, got %u.%03u", f->type->expected,
                       (unsigned) v / 1000, (unsigned) v % 1000);
    else
        put_u32(f, base, v);
}

static void read_cpus(struct reader *r, const struct field *f,
                      const struct node *n, void *base)
{
    uint64_t v;

    if (read_quantity(r, f, n, quantity_milli, 1, SPEC_MAX_CPUS * 1000u, &v))
        put_u32(f, base, v);
}

const struct type type_gpus = {
    .expected = "a fraction of one device such as 0.25, or whole devices up "
                "to 1024",
    .read = read_gpus,
    .schema = NUMBER("0", "^[0-9]+([.][0-9]{1,3})?$"),
};
const struct type type_cpus = {
    .expected = "a number of CPUs such as 0.5 or 2",
    .read = read_cpus,
    .schema = NUMBER("0.001", "^[0-9]+([.][0-9]{1,3})?$"),
};

/* "unlimited" is a word and never a number: a limit of 0 is refused. */
static bool is_unlimited(const struct node *n)
{
    return n->kind == NODE_SCALAR && strcmp(n->text, "unlimited") == 0;
}

static void read_size(struct reader *r, const struct field *f,
                      const struct node *n, void *base)
{
    uint64_t v = 0;

    if (is_unlimited(n) ||
        read_quantity(r, f, n, quantity_bytes, 1, SPEC_MAX_AMOUNT, &v))
        put_u64(f, base, v);
}

static void read_limit(struct reader *r, const struct field *f,
                       const struct node *n, void *base)
{
    uint64_t v = 0;

    if (is_unlimited(n) ||
        read_quantity(r, f, n, quantity_duration, 1, SPEC_MAX_MS, &v))
        put_u64(f, base, v);
}

static void read_period(struct reader *r, const struct field *f,
                        const struct node *n, void *base)
{
    uint64_t v;

    if (read_quantity(r, f, n, quantity_duration, 0, SPEC_MAX_MS, &v))
        put_u64(f, base, v);
}

static void read_cost(struct reader *r, const struct field *f,
                      const struct node *n, void *base)
{
    uint64_t v = 0;

    if (is_unlimited(n) ||
        read_quantity(r, f, n, quantity_milli, 1, SPEC_MAX_AMOUNT / 1000, &v))
        put_u64(f, base, v * 1000);
}

const struct type type_size = {
    .expected = "a size such as 512Mi or 40Gi, or unlimited",
    .read = read_size,
    .schema = INTEGER("1", "^([0-9]+([.][0-9]{1,3})?([kMGTP]B|[KMGTP]iB?)?"
                          "|unlimited)$"),
};
const struct type type_limit = {
    .expected = "a time such as 90s, 5m or 1h30m, or unlimited",
    .read = read_limit,
    .schema = INTEGER("1", "^([0-9]+|" DURATION "|unlimited)$"),
};
const struct type type_period = {
    .expected = "a time such as 500ms, 30s or 5m",
    .read = read_period,
    .schema = INTEGER("0", "^([0-9]+|" DURATION ")$"),
};
const struct type type_cost = {
    .expected = "an amount such as 12.50, or unlimited",
    .read = read_cost,
    .schema = NUMBER("0.001", "^([0-9]+([.][0-9]{1,3})?|unlimited)$"),
};

static void read_ranks(struct reader *r, const struct field *f,
                       const struct node *n, void *base)
{
    uint64_t v;

    if (read_quantity(r, f, n, quantity_count, 1, SPEC_MAX_RANKS, &v))
        put_u32(f, base, v);
}

static void read_count(struct reader *r, const struct field *f,
                       const struct node *n, void *base)
{
    uint64_t v;

    if (read_quantity(r, f, n, quantity_count, 0, SPEC_MAX_RETRIES, &v))
        put_u32(f, base, v);
}

static void read_share(struct reader *r, const struct field *f,
                       const struct node *n, void *base)
{
    uint64_t v;

    if (read_quantity(r, f, n, quantity_milli, 0, 1000, &v))
        put_u32(f, base, v);
}

static void read_version(struct reader *r, const struct field *f,
                         const struct node *n, void *base)
{
    uint64_t v;

    (void) base;
    (void) read_quantity(r, f, n, quantity_count, 1, 1, &v);
}

static void read_priority(struct reader *r, const struct field *f,
                          const struct node *n, void *base)
{
    const char *s = reader_text(r, n, f->type->expected);
    uint64_t v;

    if (!s)
        return;
    if (quantity_count(s + (s[0] == '-'), &v, NULL) < 0 ||
        v > SPEC_MAX_PRIORITY)
        reader_problem(r, n, "expected %s, got '%s'", f->type->expected,
                       quoted(s).s);
    else
        *(int *) field_member(f, base) = s[0] == '-' ? -(int) v : (int) v;
}

const struct type type_ranks = {
    .expected = "a number of ranks from 1 to 4096",
    .read = read_ranks,
    .schema = INTEGER("1", "^[0-9]+$"),
};
const struct type type_count = {
    .expected = "a number from 0 to 1000",
    .read = read_count,
    .schema = INTEGER("0", "^[0-9]+$"),
};
const struct type type_share = {
    .expected = "a share from 0 to 1, such as 0.01",
    .read = read_share,
    .schema = NUMBER("0", "^[0-9]+([.][0-9]{1,3})?$"),
};
const struct type type_version = {
    .expected = "1, the version of this form",
    .read = read_version,
    .schema = "{\"enum\":[1,\"1\"]}",
};
const struct type type_priority = {
    .expected = "a whole number from -1000 to 1000",
    .read = read_priority,
    .schema = INTEGER("-1000", "^-?[0-9]+$"),
};

/* "2026-11-15T19:16:50Z", or a time from now. */
static void read_deadline(struct reader *r, const struct field *f,
                          const struct node *n, void *base)
{
    const char *s = reader_text(r, n, f->type->expected);
    uint64_t ms;

    if (!s)
        return;
    if (clock_parse(s, &ms, NULL) == 0) {
        if (ms <= r->now_ms || ms > INT64_MAX)
            reader_problem(r, n, "'%s' is in the past", quoted(s).s);
        else
            put_u64(f, base, ms);
    } else if (quantity_duration(s, &ms, NULL) == 0 && ms > 0 &&
               ms <= SPEC_MAX_MS) {
        put_u64(f, base, r->now_ms + ms);
    } else {
        reader_problem(r, n, "expected %s, got '%s'", f->type->expected,
                       quoted(s).s);
    }
}

const struct type type_deadline = {
    .expected = "a date such as 2030-01-31T18:00:00Z, or a time from now such "
                "as 2h",
    .read = read_deadline,
    .schema = INTEGER("1", "^([0-9]+|" DURATION "|[0-9]{4}-[0-9]{2}-[0-9]"
                     "{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?([Zz]|[+-]"
                     "[0-9]{2}:[0-9]{2}))$"),
};
