/* named_call - a call, as caller and handler know it. Layer: test/sim. */
#ifndef TEST_SIM_NAMED_NAMED_CALL_H
#define TEST_SIM_NAMED_NAMED_CALL_H

#include "sim/named/named.h"

extern const char *const named_names[NAMED_NAMES];

/* How a handler answers. BUSY: with a buffer that a call of its node uses, which is refused. */
enum named_way { WAY_BYTES, WAY_COPY, WAY_WHY, WAY_HEAD, WAY_REFUSE, WAY_BUSY, WAYS };

/* Numbers of a call's metadata, texts and bytes. */
enum named_part { PART_REQUEST, PART_INITIAL, PART_TRAILING, PART_MESSAGE, PARTS };

struct named_call {
	struct lend_call call; /* first */
	struct lend_call_head head;
	struct lend_metadata *metadata; /* the request has them, or NULL */
	uint32_t id, node, life, to, name;
	uint32_t len; /* bytes of the request */
	lend_ns started, due;
	bool open, headed; /* headed: the request may need a head */
	/* Of its handler. */
	uint32_t runs, server_life;
	lend_request request;
	bool answered, encoded; /* encoded: the reply has an encoding that is not "identity" */
	enum named_way way;
	enum lend_status status; /* in the answer */
	uint32_t reply_len;
};

extern struct named_call named_calls[NAMED_CALLS];
extern uint32_t named_calls_n;

static inline uint64_t named_number(const struct named_call *c, enum named_part part)
{
	return (uint64_t)(c->id + 1) * PARTS + part;
}

#endif
