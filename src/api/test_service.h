#pragma once

#include "api/service.h"

struct api;
struct err;
struct loop;

/* test_service - a control plane without engines, for tests of the API: a
 * real world and a real store, and everything that engines would report is
 * said by the test.
 */
struct test_service;

/* The store is made in `folder`; one block with four simulated devices is up,
 * and there is the tenant "default" with our uid in it.
 */
int test_service_open(struct loop *l, const char *folder,
                      struct test_service **ret, struct err *err);
void test_service_close(struct test_service *t);         /* NULL is fine */
struct service test_service_get(struct test_service *t);
/* Who is to hear of durable events. */
void test_service_attach(struct test_service *t, struct api *a);

/* One line of a script.  What follows a workload is task, rank...
 *
 *     claim 1 0 0        the lease's process has started
 *     end 1 0 0 3        it has ended with status 3
 *     progress 1 0 0 {"progress": 0.5}   it says so about itself
 *     log 1 0 0 TEXT     TEXT and a line end are written to its log
 *     forget 1 0 0       its log is gone
 *     trouble [TEXT]     writes are refused, or taken again
 *     single 1           "started without root"
 *     hold 1             nobody is told that events are durable; 0: now
 *     audit 500          500 events
 *     restored           a new epoch
 */
int test_service_do(struct test_service *t, const char *line,
                    struct err *err);
