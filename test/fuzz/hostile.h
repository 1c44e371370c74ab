/* hostile - datagrams that no honest peer sends, made of choices. Layer: test. */
#ifndef TEST_FUZZ_HOSTILE_H
#define TEST_FUZZ_HOSTILE_H

#include "fuzz/world.h"

/* Changes one to four fields of a datagram that was sent to this side; the session
 * mostly stays right. Invents one while nothing was sent yet. */
void hostile_mutate(struct choice *c, int to, struct world_dgram *d);
/* Any header, often with a live session; blocks and payload of any bytes. */
void hostile_invent(struct choice *c, int to, struct world_dgram *d);
/* Up to 80 bytes as they are chosen. */
void hostile_raw(struct choice *c, struct world_dgram *d);

/* Feeds it as peer index, and checks the core's reaction: a datagram that is malformed, or proves
 * no session, changes nothing and raises no event, except that an unknown session is answered with
 * RESET. */
void hostile_feed(int to, const struct world_dgram *d, uint32_t index);

#endif
