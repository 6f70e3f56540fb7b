#include "spec/doc.h"

#include "base/json.h"
#include "base/mem.h"
#include "spec/field.h"
#include "spec/type.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

/* The JSON Schema, from the rows of src/spec/field.c.  It is a help for
 * editors and other programs: what it refuses the reader refuses too, not the
 * other way round (needs, cycles and sums are beyond it).
 */

static json_t *table_schema(const struct table *t, unsigned use);

/* A piece written as text in this program. */
static json_t *piece(const char *text)
{
    json_t *j = json_loads(text, JSON_DECODE_ANY, NULL);

    assert(j);
    return j;
}

static json_t *ref(const char *name)
{
    json_t *o = json_object();
    autofree char *path = mem_printf("#/$defs/%s", name);

    json_put_str(o, "$ref", path);
    return o;
}

static json_t *any_of(json_t *a, json_t *b)
{
    json_t *o = json_object(), *list = json_array();

    json_array_append_new(list, a);
    json_array_append_new(list, b);
    json_put(o, "anyOf", list);
    return o;
}

static json_t *array_of(json_t *items, unsigned least)
{
    json_t *o = json_object();

    json_put_str(o, "type", "array");
    if (least)
        json_put_u64(o, "minItems", least);
    json_put(o, "items", items);
    return o;
}

static json_t *word_schema(const char *const *words, const char *prefix)
{
    json_t *o = json_object(), *list = json_array();

    for (size_t i = 0; words[i]; i++) {
        json_array_append_new(list, json_string(words[i]));
        if (prefix) {
            autofree char *longer = mem_printf("%s%s", prefix, words[i]);

            json_array_append_new(list, json_string(longer));
        }
    }
    json_put(o, "enum", list);
    return o;
}

static json_t *mount_schema(const struct table *t)
{
    json_t *o = table_schema(t, USE_PART);

    json_put(o, "required", piece("[\"source\",\"target\"]"));
    return o;
}

static json_t *tasks_schema(void)
{
    json_t *by_name = piece("{\"type\":\"object\",\"minProperties\":1}");
    json_t *named = ref("task");

    json_put(by_name, "additionalProperties", ref("task"));
    json_put(named, "required", piece("[\"name\"]"));
    return any_of(by_name, array_of(named, 1));
}

static json_t *type_schema(const struct field *f)
{
    if (f->type->schema)
        return piece(f->type->schema);
    if (f->type == &type_kind)
        return word_schema(f->words, NULL);
    if (f->type == &type_word)
        return any_of(word_schema(f->words, NULL), ref("template"));
    if (f->type == &type_signal)
        return any_of(word_schema(f->words, "SIG"), ref("template"));
    if (f->type == &type_causes)
        return array_of(any_of(word_schema(f->words, NULL), ref("template")),
                        1);
    if (f->type == &type_mounts)
        return array_of(mount_schema(f->table), 0);
    if (f->type == &type_retries)
        return any_of(piece(type_count.schema),
                      table_schema(f->table, USE_PART));
    if (f->type == &type_gang)
        return any_of(piece(type_ranks.schema),
                      table_schema(f->table, USE_PART));
    if (f->type == &type_defaults)
        return table_schema(f->table, USE_DEFAULTS);
    if (f->type == &type_tasks)
        return tasks_schema();
    return table_schema(f->table, USE_PART);
}

static void put_properties(json_t *props, const struct table *t, unsigned use)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct field *f = &t->fields[i];
        json_t *schema;

        if (!(f->use & use))
            continue;
        schema = type_schema(f);
        json_put_str(schema, "description", f->help);
        json_put(props, f->name, schema);
    }
}

static json_t *table_schema(const struct table *t, unsigned use)
{
    json_t *o = json_object(), *props = json_object();

    put_properties(props, t, use);
    json_put_str(o, "type", "object");
    json_put(o, "properties", props);
    json_put_bool(o, "additionalProperties", false);
    return o;
}

static json_t *job_schema(void)
{
    json_t *o = table_schema(&table_document, USE_JOB);

    put_properties(json_object_get(o, "properties"), &table_task, USE_JOB);
    json_put(o, "oneOf", piece("[{\"required\":[\"run\"]},"
                               "{\"required\":[\"argv\"]}]"));
    return o;
}

static json_t *pipeline_schema(void)
{
    json_t *o = table_schema(&table_document, USE_PIPELINE);

    json_put(o, "required", piece("[\"tasks\"]"));
    return o;
}

static json_t *task_schema(void)
{
    json_t *o = table_schema(&table_task, USE_TASK);

    json_put(o, "not", piece("{\"required\":[\"run\",\"argv\"]}"));
    return o;
}

static char *schema_text;

static void make_schema(void)
{
    autojson json_t *root = piece(
        "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\","
        "\"title\":\"A Weir document\","
        "\"type\":\"object\",\"required\":[\"weir\",\"kind\"],"
        "\"properties\":{\"kind\":{\"enum\":[\"job\",\"pipeline\"]}},"
        "\"if\":{\"properties\":{\"kind\":{\"const\":\"job\"}}},"
        "\"then\":{\"$ref\":\"#/$defs/job\"},"
        "\"else\":{\"$ref\":\"#/$defs/pipeline\"}}");
    json_t *defs = json_object();

    json_put(defs, "template", piece("{\"type\":\"string\",\"pattern\":"
                                     "\"[{][{]\"}"));
    json_put(defs, "job", job_schema());
    json_put(defs, "pipeline", pipeline_schema());
    json_put(defs, "task", task_schema());
    json_put(root, "$defs", defs);
    schema_text = json_dumps(root, JSON_FORM | JSON_INDENT(2));
    assert(schema_text);
}

const char *doc_schema(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void) pthread_once(&once, make_schema);
    return schema_text;
}
