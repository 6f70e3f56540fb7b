#include "plan/pool.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>

/* Scores that were worked out before.
 *
 * A search compares a few dozen places, most of them on nodes where nothing has
 * changed since one alike looked there.  What score_place says follows from the
 * part, from the node as it is, and from what is typical and how models are
 * rated; the stamp of the node says the second, score_version the third, and as
 * long as both are what they were the score is.  No two nodes, and no two states
 * of one, ever have the same stamp.
 *
 * Of nodes whose numbers differ by a multiple of SCORED the last one is kept: a
 * search asks for some that stand near each other.
 */
enum { SCORED = 256 };

struct scored {
    uint64_t version;
    struct score {
        uint64_t stamp;                /* 0: none */
        double score;
    } list[SCORED];
};

static struct scored *scores_of(const struct plan *p, struct part *part)
{
    uint64_t version = score_version(p);

    if (!part->scored)
        part->scored = mem_new(sizeof(*part->scored));
    else if (part->scored->version != version)
        memset(part->scored, 0, sizeof(*part->scored));
    part->scored->version = version;
    return part->scored;
}

double scored_place(const struct plan *p, struct plan_node *n, struct part *part)
{
    struct score *s = &scores_of(p, part)->list[n->index % SCORED];

    if (s->stamp != n->stamp) {
        struct plan_place unused;

        s->score = score_place(p, n, part, NULL, &unused);
        s->stamp = n->stamp;
    }
    return s->score;
}

static bool is_right(const struct plan *p, struct plan_node *n,
                     const struct part *part)
{
    const struct score *s = &part->scored->list[n->index % SCORED];
    struct plan_place unused;
    double score;

    if (s->stamp != n->stamp)
        return true;
    score = score_place(p, n, part, NULL, &unused);
    return s->score >= score && s->score <= score;
}

int scored_check(const struct plan *p, struct err *err)
{
    uint64_t version = score_version(p);

    for (uint32_t k = 0; k < p->nshapes; k++) {
        const struct part *part = &p->shapes[k]->parts[0];

        if (!part->scored || part->scored->version != version)
            continue;
        for (uint32_t n = 0; n < p->nnodes; n++)
            if (p->nodes[n] && !is_right(p, p->nodes[n], part))
                return err_set(err, EPROTO, "node %s, shape %u: the score "
                               "that is kept is not what it is",
                               p->nodes[n]->name, k);
    }
    return 0;
}
