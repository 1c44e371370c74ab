#include "rpc/job_queue.h"

static bool is_before(const struct lend_req *a, const struct lend_req *b)
{
	return a->job.due != b->job.due ? a->job.due < b->job.due : a->job.number < b->job.number;
}

/* Merges two skew heaps: the descent swaps children, so that no path stays long (Sleator and
 * Tarjan, 1986). */
static struct lend_req *merge_heaps(struct lend_req *a, struct lend_req *b)
{
	struct lend_req *root = NULL, **at = &root;

	while (a && b) {
		struct lend_req *first = is_before(b, a) ? b : a, *rest = first->job.right;

		b = first == a ? b : a;
		a = rest;
		first->job.right = first->job.left;
		*at = first;
		at = &first->job.left;
	}
	*at = a ? a : b;
	return root;
}

void lend_jobs_push(struct lend_jobs *jobs, struct lend_req *req)
{
	struct lend_req **root = &jobs->root[req->class % LEND_JOBS_CLASSES];

	req->job = (struct lend_job){.number = jobs->pushed++};
	if (jobs->by_deadline)
		req->job.due = atomic_load_explicit(&req->deadline, memory_order_relaxed);
	*root = merge_heaps(*root, req);
}

struct lend_req *lend_jobs_pop(struct lend_jobs *jobs)
{
	uint32_t class = LEND_JOBS_CLASSES;
	struct lend_req *req;

	for (uint32_t i = 0; i < LEND_JOBS_CLASSES; i++)
		if (jobs->root[i] &&
		    (class == LEND_JOBS_CLASSES || jobs->passed[i] >= LEND_JOBS_FLOOR - 1))
			class = i;
	if (class == LEND_JOBS_CLASSES)
		return NULL;
	req = jobs->root[class];
	jobs->root[class] = merge_heaps(req->job.left, req->job.right);
	jobs->passed[class] = 0;
	for (uint32_t i = class + 1; i < LEND_JOBS_CLASSES; i++)
		jobs->passed[i] = jobs->root[i] ? jobs->passed[i] + 1 : 0;
	return req;
}
