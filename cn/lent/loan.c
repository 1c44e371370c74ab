#include "cn/lent/loan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cn/args/args.h"
#include "cn/lent/lender.h"
#include "lend/alloc.h"
#include "sys/last_error.h"
#include "sys/ref_counts.h"
#include "util/bits.h"

enum { ALIGN = 4096 };

/* A published loan, in a list of its client. */
struct cn_published {
	struct cn_published *next;
	struct lend_ref ref;
	uint64_t id;
	lend_ns until; /* LEND_NEVER: it has no ttl, or has expired */
};

static void *take_memory(uint64_t len)
{
	void *memory = lend_malloc_shared(len);

	return memory ? memory : lend_aligned(ALIGN, len);
}

static int check_len(uint64_t len)
{
	if (len <= LEND_MEMREF_ROOT_MAX)
		return 0;
	return lend_fail(EINVAL, "a loan of %llu bytes: at most 2^40 - 1", (unsigned long long)len);
}

int lend_loan_take(struct lend_mem *mem, uint64_t len, struct lend_loan *loan)
{
	int rc = check_len(len);

	(void)mem;
	if (rc < 0)
		return rc;
	*loan = (struct lend_loan){.data = take_memory(len ? len : 1), .len = len};
	return loan->data ? 0 : lend_fail(ENOMEM, "no memory for a loan");
}

int lend_loan_resize(struct lend_mem *mem, struct lend_loan *loan, uint64_t len)
{
	int rc = check_len(len);
	void *memory;

	(void)mem;
	if (rc < 0)
		return rc;
	if (loan->id)
		return lend_fail(EBUSY, "the loan is published: its bytes must not change");
	if (len > lend_usable(loan->data)) {
		memory = take_memory(len);
		if (!memory)
			return lend_fail(ENOMEM, "no memory for a longer loan");
		memcpy(memory, loan->data, loan->len);
		lend_free(loan->data);
		loan->data = memory;
	}
	loan->len = len;
	return 0;
}

static int join_lender(struct lend_mem *mem)
{
	if (!mem->publisher)
		mem->publisher = cn_lender_join(mem->ep);
	return mem->publisher ? 0 : lend_fail(ENOMEM, "no memory for the table of loans");
}

/* Returns the address of a reader's session's carrier; NULL with *rc. */
static const char *find_home(struct lend_mem *mem, lend_session session, int *rc)
{
	const char *home;
	struct lend_peer peer;

	*rc = lend_session_peer(mem->ep, session, &peer);
	if (*rc == 0)
		*rc = join_lender(mem);
	if (*rc < 0)
		return NULL;
	home = cn_lender_home(mem->publisher, session);
	if (!home)
		*rc = lend_fail(EADDRNOTAVAIL, "readers of a loan need an address: listen on the "
					       "carrier of that session");
	return home;
}

int lend_loan_publish(struct lend_mem *mem, struct lend_loan *loan, lend_session session,
		      struct lend_arg *arg)
{
	struct iovec memory = {loan->data, loan->len};
	struct cn_published *p;
	const char *home;
	int rc;

	if (loan->id)
		return lend_fail(EALREADY, "this loan is published");
	home = find_home(mem, session, &rc);
	if (!home)
		return rc;
	p = calloc(1, sizeof(*p));
	if (!p)
		return lend_fail(ENOMEM, "no memory for a published loan");
	if (!cn_lent_begin(mem->publisher, &memory, NULL, &p->ref)) {
		free(p);
		return lend_fail(ENOSPC, "all loans of this endpoint are in use: end some");
	}
	p->until = mem->loan_ttl ? lend_now(mem->ep) + mem->loan_ttl : LEND_NEVER;
	cn_loans_watch(mem, p->until);
	p->id = loan->id = ++mem->seq;
	p->next = mem->published;
	mem->published = p;
	*arg = (struct lend_arg){.len = loan->len, .ref = p->ref};
	strcpy(arg->home, home);
	return 0;
}

/* Ends reads of published loans that have expired; their memory stays the producer's. Returns
 * when to call it again. */
static lend_ns expire_published(struct lend_mem *mem)
{
	lend_ns now = lend_now(mem->ep), next = LEND_NEVER;

	for (struct cn_published *p = mem->published; p; p = p->next) {
		if (now >= p->until) {
			p->until = LEND_NEVER;
			cn_lent_expire(mem->publisher, &p->ref);
			lend_ref_count(&lend_ref_counts.expired);
		}
		next = lend_min_u64(next, p->until);
	}
	return next;
}

static void check_lifetimes(struct lend_alarm *alarm)
{
	struct lend_mem *mem =
	    (struct lend_mem *)((char *)alarm - offsetof(struct lend_mem, alarm));
	lend_ns next = expire_published(mem);

	cn_loans_watch(mem, lend_min_u64(next, cn_args_expire(mem, false)));
}

void cn_loans_watch(struct lend_mem *mem, lend_ns at)
{
	mem->alarm.ring = check_lifetimes;
	if (at < mem->alarm.at)
		lend_alarm_set(mem->ep, &mem->alarm, at);
}

bool cn_loan_is_own(const struct lend_mem *mem, const struct lend_memref *ref)
{
	return mem->publisher && cn_lender_made(mem->publisher, ref);
}

void lend_loan_ttl_set(struct lend_mem *mem, lend_ns ttl)
{
	mem->loan_ttl = ttl;
}

static void end_published(struct lend_mem *mem, struct cn_published **at)
{
	struct cn_published *p = *at;

	*at = p->next;
	cn_lent_end(mem->publisher, &p->ref);
	free(p);
}

void lend_loan_give(struct lend_mem *mem, struct lend_loan *loan)
{
	struct cn_published **at = &mem->published;

	while (loan->id && *at && (*at)->id != loan->id)
		at = &(*at)->next;
	if (loan->id && *at)
		end_published(mem, at);
	lend_free(loan->data);
	*loan = (struct lend_loan){.data = NULL};
}

void cn_loans_drop(struct lend_mem *mem)
{
	while (mem->published)
		end_published(mem, &mem->published);
	if (mem->publisher)
		cn_lender_leave(mem->publisher);
}
