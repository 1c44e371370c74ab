/* lent/lender - serves the memory that calls of this endpoint lend.
 * Layer: cn. Threads: the endpoint's; the list of lenders: any. */
#include "cn/lent/lender.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cn/args/args.h"
#include "cn/lent/caller.h"
#include "cn/lent/relay.h"
#include "lend/alloc.h"
#include "lend/one_sided.h"
#include "sys/rand.h"
#include "sys/shared_arena.h"
#include "util/bits.h"
#include "wire/lent_table.h"

enum { HOMES = 1024 };
/* A loan is copied to memory that peers map when one read wants a fourth of the loan or a whole
 * part. */
enum { PLACE_SHARE = 4 };

/* A reply that wraps lent memory, from lend_reply() until no carrier reads the memory; or memory
 * that is shown to a reader. */
struct get {
	LIST_ENTRY(get) link; /* while the loan lasts */
	uint8_t shown[8];     /* as of lend_show(); zeros: a reply */
	struct cn_args *args;
	lend_request request;
	bool linked;
};
LIST_HEAD(gets, get);

struct loan {
	struct cn_args *args;
	struct iovec memory;
	void *copy; /* copy of memory that peers do not map, once one of them asked; or NULL */
	struct gets gets;
};

struct cn_lender {
	LIST_ENTRY(cn_lender) link;
	struct lend_ep *ep;
	pid_t pid; /* process that opened the lender; a fork's child has no lender */
	uint32_t refs;
	uint32_t id;
	uint16_t epoch;
	uint8_t key[16];
	lend_session last; /* session of the last search for a home; last_home: the result */
	const char *last_home;
	char homes[HOMES]; /* the endpoint's addresses, each with a terminating zero; "" ends */
	struct cn_relays relays;
	struct lend_lent_table table;
	struct lend_lent_entry *entry; /* in shared memory, if this process has any */
	uint64_t table_at;             /* its offset there, or LEND_LENT_NOWHERE */
	struct loan loan[LEND_LENT_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(lenders, cn_lender) lenders = LIST_HEAD_INITIALIZER(lenders);
/* Lenders that ended. Their tables are used again for tables only, with greater serials: a reader
 * may still check a view of one of their entries. */
static struct lenders spares = LIST_HEAD_INITIALIZER(spares);

static void get_gone(void *arg)
{
	struct get *get = arg;
	struct cn_args *args = get->args;

	if (get->linked)
		LIST_REMOVE(get, link);
	free(get);
	cn_args_wrap_gone(args);
}

/* Makes a segment that wraps lent memory; NULL: no memory. */
static struct lend_buf *wrap_range(struct cn_lender *lender, struct loan *loan,
				   lend_request request, void *bytes, uint32_t len)
{
	struct get *get = malloc(sizeof(*get));
	struct lend_buf *buf = get ? lend_buf_wrap(lender->ep, bytes, len, get_gone, get) : NULL;

	if (!buf) {
		free(get);
		return NULL;
	}
	*get = (struct get){.args = loan->args, .request = request, .linked = true};
	LIST_INSERT_HEAD(&loan->gets, get, link);
	loan->args->wraps++;
	return buf;
}

/* Shows lent memory to the reader. Returns the status of the reply. */
static enum lend_status show_range(struct cn_lender *lender, struct loan *loan,
				   lend_request request, void *bytes, uint64_t len,
				   struct lend_buf **reply)
{
	struct get *get = malloc(sizeof(*get));
	struct lend_buf *buf = get ? lend_buf_take(lender->ep, LEND_SHOWN_MAX) : NULL;
	struct iovec run = {bytes, len};
	int n = -1;

	if (buf)
		n = lend_show(lender->ep, lend_request_session(lender->ep, request), &run, 1,
			      get_gone, get, buf->data);
	if (n < 0) {
		if (buf)
			lend_buf_give(lender->ep, buf);
		free(get);
		return n == -ENOTCONN ? LEND_FAILED_PRECONDITION : LEND_UNIMPLEMENTED;
	}
	*get = (struct get){.args = loan->args, .request = request, .linked = true};
	memcpy(get->shown, buf->data, sizeof(get->shown));
	LIST_INSERT_HEAD(&loan->gets, get, link);
	loan->args->wraps++;
	buf->len = (uint32_t)n;
	buf->next = NULL;
	*reply = buf;
	return LEND_OK;
}

static struct lend_buf *copy_range(struct cn_lender *lender, const void *bytes, uint32_t len)
{
	struct lend_buf *buf = lend_buf_take(lender->ep, len);

	if (!buf)
		return NULL;
	memcpy(buf->data, bytes, len);
	buf->len = len;
	buf->next = NULL;
	return buf;
}

/* Returns the offset of memory that peers map, or LEND_LENT_NOWHERE. */
static uint64_t place_of(const void *memory, size_t len)
{
	uint64_t offset;

	return lend_arena_find(memory, len, &offset) ? offset : LEND_LENT_NOWHERE;
}

/* Copies a loan to memory that peers map, if a reader wants enough of it: see PLACE_SHARE. */
static void place_loan(struct lend_lent_entry *entry, struct loan *loan, uint64_t wanted)
{
	uint64_t most = lend_min_u64(loan->memory.iov_len / PLACE_SHARE, LEND_MEM_PART_MAX);

	if (loan->copy || wanted < most ||
	    atomic_load_explicit(&entry->at, memory_order_relaxed) != LEND_LENT_NOWHERE)
		return;
	loan->copy = lend_malloc_shared(loan->memory.iov_len);
	if (!loan->copy)
		return;
	memcpy(loan->copy, loan->memory.iov_base, loan->memory.iov_len);
	lend_lent_move(entry, place_of(loan->copy, loan->memory.iov_len));
}

/* Makes the reply with the table's offset in shared memory. NULL: it is not in shared memory. */
static struct lend_buf *table_reply(struct cn_lender *lender)
{
	struct lend_buf *buf =
	    lender->table_at == LEND_LENT_NOWHERE ? NULL : lend_buf_take(lender->ep, 16);

	if (!buf)
		return NULL;
	lend_store_u64(buf->data, lender->table_at);
	lend_store_u64((uint8_t *)buf->data + 8, LEND_LENT_MAX);
	buf->len = 16;
	buf->next = NULL;
	return buf;
}

/* Finds the bytes that a GET reads. Returns LEND_MEM_OK, their loan and address. */
static enum lend_mem_status find(struct cn_lender *lender, const struct lend_memop *say,
				 struct loan **loan, void **bytes)
{
	const struct lend_memref *ref = &say->ref;
	enum lend_mem_status status;
	uint64_t first;

	if (say->kind != LEND_MEMOP_GET)
		return LEND_MEM_UNIMPLEMENTED;
	if (!cn_lender_made(lender, ref) || ref->slot >= LEND_LENT_MAX)
		return LEND_MEM_NOT_FOUND;
	status = lend_lent_check(&lender->entry[ref->slot], ref, say->offset, say->len, &first);
	*loan = &lender->loan[ref->slot];
	if (status == LEND_MEM_OK)
		*bytes = (uint8_t *)(*loan)->memory.iov_base + first;
	return status;
}

/* Returns whether a reply is copied. A reader on this host would read a reply in shared memory in
 * place, and the carrier would wait for it. */
static bool is_copied(struct cn_lender *lender, const struct loan *loan, lend_request request,
		      const void *bytes, uint64_t len)
{
	struct lend_peer peer;

	if (len <= CN_ARGS_COPY_MAX || !loan->args)
		return true;
	return place_of(bytes, len) != LEND_LENT_NOWHERE &&
	       (lend_session_peer(lender->ep, lend_request_session(lender->ep, request), &peer) <
		    0 ||
		cn_caller_near(&peer, "shm:"));
}

/* Ends the loan of a result. encoded: its reference, in the request. */
static enum lend_mem_status end_result(struct loan *loan, const uint8_t *encoded)
{
	struct lend_ref ref;

	lend_ref_load(&ref, encoded);
	return loan->args && cn_args_release(loan->args, &ref) ? LEND_MEM_OK
							       : LEND_MEM_FAILED_PRECONDITION;
}

/* Lets the reader read the bytes by itself, or ask for them in a message. */
static void serve_shown(struct cn_lender *lender, lend_request request,
			const struct lend_memop *say)
{
	enum lend_status status = LEND_UNIMPLEMENTED;
	struct lend_buf *reply = NULL;
	struct loan *loan;
	void *bytes;

	if (find(lender, say, &loan, &bytes) == LEND_MEM_OK && loan->args)
		status = show_range(lender, loan, request, bytes, say->len, &reply);
	(void)lend_reply(lender->ep, request, status, reply);
}

static void serve_get(lend_request request, const struct lend_buf *message, void *arg)
{
	struct cn_lender *lender = arg;
	uint8_t head[LEND_MEMOP_FIXED_MAX];
	size_t len = cn_buf_read(message, head, sizeof(head));
	struct lend_buf *reply = NULL;
	enum lend_mem_status status;
	struct lend_memop say;
	struct loan *loan;
	void *bytes;

	status = lend_memop_decode(head, len < sizeof(head) ? len : sizeof(head), len, &say);
	if (status == LEND_MEM_OK && say.flags & LEND_MEMOP_ONE_SIDED) {
		serve_shown(lender, request, &say);
		return;
	}
	if (status == LEND_MEM_OK && say.kind == LEND_MEMOP_GET &&
	    !cn_lender_made(lender, &say.ref) &&
	    cn_relay_serve(&lender->relays, lender->ep, request, &say, head + LEND_MEMOP_HEAD))
		return;
	if (status == LEND_MEM_OK)
		status = find(lender, &say, &loan, &bytes);
	if (status == LEND_MEM_OK && say.flags & LEND_MEMOP_END)
		status = end_result(loan, head + LEND_MEMOP_HEAD);
	if (status != LEND_MEM_OK || !say.len) {
		lend_reply(lender->ep, request, (enum lend_status)status, NULL);
		return;
	}
	if (say.flags & LEND_MEMOP_IN_PLACE) {
		place_loan(&lender->entry[say.ref.slot], loan, say.len);
		reply = table_reply(lender);
	} else if (is_copied(lender, loan, request, bytes, say.len))
		reply = copy_range(lender, bytes, (uint32_t)say.len);
	else
		reply = wrap_range(lender, loan, request, bytes, (uint32_t)say.len);
	lend_reply(lender->ep, request, reply ? LEND_OK : LEND_RESOURCE_EXHAUSTED, reply);
}

/* Splits a comma-separated list of addresses into strings. */
static void split_homes(struct cn_lender *lender)
{
	if (lend_address(lender->ep, lender->homes, HOMES - 1) < 0)
		lender->homes[0] = 0;
	for (char *c = lender->homes; *c; c++)
		if (*c == ',')
			*c = 0;
}

/* Makes a lender with a table, not yet attached to an endpoint. NULL: no memory. */
static struct cn_lender *make_spare(void)
{
	struct cn_lender *lender = calloc(1, sizeof(*lender));

	if (!lender)
		return NULL;
	lender->entry = lend_malloc_shared(LEND_LENT_TABLE_LEN);
	if (!lender->entry)
		lender->entry = lend_malloc(LEND_LENT_TABLE_LEN);
	if (!lender->entry) {
		free(lender);
		return NULL;
	}
	memset(lender->entry, 0, LEND_LENT_TABLE_LEN);
	lender->table_at = place_of(lender->entry, LEND_LENT_TABLE_LEN);
	lend_lent_init(&lender->table, lender->entry);
	lender->pid = getpid();
	LIST_INSERT_HEAD(&spares, lender, link);
	return lender;
}

static struct cn_lender *find_lender(struct lenders *list, const struct lend_ep *ep)
{
	struct cn_lender *lender;

	LIST_FOREACH(lender, list, link)
	if (lender->ep == ep && lender->pid == getpid())
		return lender;
	return NULL;
}

static struct cn_lender *make_lender(struct lend_ep *ep)
{
	struct cn_lender *lender = find_lender(&spares, NULL);

	if (!lender)
		lender = make_spare();
	if (!lender || lend_serve(ep, CN_LENT_METHOD, serve_get, lender, LEND_RESERVED) < 0)
		return NULL;
	LIST_REMOVE(lender, link);
	LIST_INSERT_HEAD(&lenders, lender, link);
	lender->ep = ep;
	lender->last_home = NULL;
	lend_random(&lender->id, sizeof(lender->id));
	lend_random(&lender->epoch, sizeof(lender->epoch));
	lend_random(lender->key, sizeof(lender->key));
	split_homes(lender);
	return lender;
}

struct cn_lender *cn_lender_join(struct lend_ep *ep)
{
	struct cn_lender *lender;

	pthread_mutex_lock(&lock);
	lender = find_lender(&lenders, ep);
	if (!lender)
		lender = make_lender(ep);
	if (lender)
		lender->refs++;
	pthread_mutex_unlock(&lock);
	return lender;
}

struct cn_relays *cn_lender_relays(struct lend_mem *mem)
{
	if (!mem->lender)
		mem->lender = cn_lender_join(mem->ep);
	return mem->lender ? &mem->lender->relays : NULL;
}

void cn_lender_leave(struct cn_lender *lender)
{
	pthread_mutex_lock(&lock);
	if (!--lender->refs) {
		(void)lend_serve(lender->ep, CN_LENT_METHOD, NULL, NULL, LEND_RESERVED);
		LIST_REMOVE(lender, link);
		lender->ep = NULL;
		LIST_INSERT_HEAD(&spares, lender, link);
	}
	pthread_mutex_unlock(&lock);
}

static const char *find_home(struct cn_lender *lender, lend_session session)
{
	struct lend_peer peer;

	if (lend_session_peer(lender->ep, session, &peer) < 0)
		return NULL;
	for (const char *home = lender->homes; *home; home += strlen(home) + 1)
		if (cn_caller_near(&peer, home) && strlen(home) < CN_ADDRESS_MAX)
			return home;
	return NULL;
}

const char *cn_lender_home(struct cn_lender *lender, lend_session session)
{
	if (lender->last.id == session.id && lender->last_home)
		return lender->last_home;
	lender->last = session;
	lender->last_home = find_home(lender, session);
	return lender->last_home;
}

bool cn_lent_begin(struct cn_lender *lender, const struct iovec *memory, struct cn_args *args,
		   struct lend_ref *out)
{
	struct lend_memref ref = {
	    .node = lender->id, .epoch = lender->epoch, .key_id = (uint8_t)lend_key_id(lender->ep)};
	struct loan *loan;

	if (!lend_lent_add(&lender->table, place_of(memory->iov_base, memory->iov_len),
			   memory->iov_len, lender->key, &ref))
		return false;
	loan = &lender->loan[ref.slot];
	loan->args = args;
	loan->memory = *memory;
	loan->copy = NULL;
	LIST_INIT(&loan->gets);
	lend_memref_encode(&ref, (uint8_t *)out);
	return true;
}

void cn_lent_expire(struct cn_lender *lender, const struct lend_ref *encoded)
{
	struct lend_memref ref;

	cn_ref_in(&ref, encoded);
	lend_lent_move(&lender->entry[ref.slot], LEND_LENT_EXPIRED);
}

bool cn_lender_made(const struct cn_lender *lender, const struct lend_memref *ref)
{
	return ref->node == lender->id && ref->epoch == lender->epoch;
}

void cn_lent_end(struct cn_lender *lender, const struct lend_ref *encoded)
{
	struct lend_memref ref;
	struct loan *loan;
	struct get *get;

	cn_ref_in(&ref, encoded);
	if (!lend_lent_end(&lender->table, ref.slot, ref.serial))
		return;
	loan = &lender->loan[ref.slot];
	lend_free(loan->copy);
	while ((get = LIST_FIRST(&loan->gets))) {
		lend_request request = get->request;

		LIST_REMOVE(get, link);
		get->linked = false;
		lend_hide(lender->ep, get->shown); /* a shown one ends here */
		lend_reply_withdraw(lender->ep, request);
	}
}
