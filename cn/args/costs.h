/* args/costs - what an argument costs inline and by reference, and from which length on the latter
 * is cheaper.
 *
 *   inline      n * call + first(len) + (n - 1) * next(len)     n: services that the message goes
 *   lent        n * call + fetch(len)                              through, as replies report it
 *   on a node   n * call + put and get(len)
 *
 * first: bytes of the caller's memory behind a head. next: bytes that a service passes on, which
 * over shm are copied once. fetch is a message of that length, and two and a half calls for the
 * request and the state at both ends; where the caller's memory is mapped, it is an eighth of a
 * call, at most 200 ns. Costs are known at some lengths, linear between them and
 * beyond. Layer: cn (pure). No state. */
#ifndef LEND_CN_ARGS_COSTS_H
#define LEND_CN_ARGS_COSTS_H

#include <stdbool.h>
#include <stdint.h>

enum { CN_COST_POINTS = 4, CN_COST_LEN_MAX = 1 << 20 };
extern const uint32_t cn_cost_len[CN_COST_POINTS];

enum cn_cost_kind { CN_COST_FIRST, CN_COST_NEXT, CN_COST_PUT_GET, CN_COST_KINDS };

/* Nanoseconds at each length, the first `known` of them. */
struct cn_cost {
	uint64_t ns[CN_COST_POINTS];
	uint32_t known;
};

/* Costs of a session, or of a node: the latter has CN_COST_PUT_GET only. */
struct cn_costs {
	struct cn_cost cost[CN_COST_KINDS];
	uint64_t again;                 /* ns; no measurement before this time */
	uint64_t renew_at, renew_after; /* ns; time of the next measurement of a known cost */
	uint32_t renewed;               /* number of such repeated measurements */
	bool in_place; /* the peer maps this process's memory, and reads it in place */
};

/* Returns the length above which every argument is cheaper by reference: UINT64_MAX if none is.
 * node NULL: lent; else put there. Both must be known at two points. */
uint64_t cn_costs_crossing(const struct cn_costs *session, const struct cn_costs *node,
			   double hops);

#endif
