/* replay_bad - datagrams that replay_test puts in between: recorded ones changed, and invented
 * ones. Layer: test. */
#ifndef TEST_FUZZ_REPLAY_BAD_H
#define TEST_FUZZ_REPLAY_BAD_H

#include <string.h>

#include "util/rng.h"
#include "wire/pkt.h"

enum { MTU = 1456 };

struct dgram {
	uint8_t data[MTU + 64];
	uint32_t len;
};

static inline uint32_t bad_pick(struct lend_rng *rng, uint32_t n)
{
	return (uint32_t)lend_rng_below(rng, n);
}

/* Changes one to three fields of a recorded one. */
static inline void bad_mutate(struct lend_rng *rng, struct dgram *d)
{
	static const uint32_t edge[] = {0, 1, 1375, 1376, 65536, 1 << 30, UINT32_MAX, 0x7fffffff};
	struct lend_pkt head;

	memcpy(&head, d->data, sizeof(head));
	for (uint32_t n = 1 + bad_pick(rng, 3); n > 0; n--)
		switch (bad_pick(rng, 9)) {
		case 0:
			head.kind = (uint8_t)bad_pick(rng, 34);
			break;
		case 1:
			head.flags =
			    (uint8_t)(bad_pick(rng, 8) ? head.flags ^ (1u << bad_pick(rng, 5))
						       : bad_pick(rng, 256));
			break;
		case 2:
			head.call = bad_pick(rng, 2) ? head.call ^ (1u << bad_pick(rng, 32))
						     : bad_pick(rng, 64) << 10 | bad_pick(rng, 12);
			break;
		case 3:
			head.number += bad_pick(rng, 2) ? bad_pick(rng, 100)
							: lend_rng_next(rng) >> bad_pick(rng, 64);
			break;
		case 4:
			head.offset = edge[bad_pick(rng, 8)];
			break;
		case 5:
			head.length = bad_pick(rng, 2) ? edge[bad_pick(rng, 8)] : (1u << 20) - 1;
			break;
		case 6:
			if (bad_pick(rng, 8) == 0)
				head.session ^=
				    UINT64_C(1)
				    << (24 + bad_pick(rng, 40)); /* another generation */
			break;
		case 7:
			if (d->len > sizeof(head))
				d->data[sizeof(head) +
					bad_pick(rng, d->len - (uint32_t)sizeof(head))] ^=
				    (uint8_t)(1 + bad_pick(rng, 255));
			break;
		default:
			d->len = bad_pick(rng, 2) ? bad_pick(rng, d->len + 1) : d->len;
		}
	memcpy(d->data, &head, sizeof(head));
}

/* Makes a valid hello of another client, which will not answer. */
static inline void bad_greet(struct lend_rng *rng, struct dgram *d)
{
	struct lend_pkt_connect hello;

	memcpy(&hello, d->data + sizeof(struct lend_pkt), sizeof(hello));
	hello.connect = lend_rng_next(rng);
	hello.session = lend_rng_next(rng) | 1;
	memcpy(d->data + sizeof(struct lend_pkt), &hello, sizeof(hello));
}

/* Any bytes, mostly with a header that looks right. */
static inline void bad_invent(struct lend_rng *rng, struct dgram *d)
{
	struct lend_pkt head = {.magic = LEND_PKT_MAGIC, .version = LEND_PKT_VERSION};

	d->len = bad_pick(rng, 10) ? bad_pick(rng, 300) : bad_pick(rng, MTU + 60);
	for (uint32_t i = 0; i < d->len; i++)
		d->data[i] = (uint8_t)lend_rng_next(rng);
	head.kind = (uint8_t)bad_pick(rng, LEND_PKT_KINDS + 1);
	head.flags = (uint8_t)bad_pick(rng, 32);
	head.call = bad_pick(rng, 2) ? bad_pick(rng, 100) : (uint32_t)lend_rng_next(rng);
	head.session = bad_pick(rng, 2) ? bad_pick(rng, 64) : lend_rng_next(rng);
	head.number = lend_rng_next(rng) >> bad_pick(rng, 64);
	head.offset = bad_pick(rng, 3) ? 0 : bad_pick(rng, 100000);
	head.length =
	    bad_pick(rng, 3) ? d->len : (1u << 30); /* a first fragment that claims 1 GiB */
	head.version = bad_pick(rng, 10) ? 1 : (uint8_t)bad_pick(rng, 256);
	if (d->len >= sizeof(head) && bad_pick(rng, 8))
		memcpy(d->data, &head, sizeof(head));
}

#endif
