/* life - the lives of this process at memory nodes, shared by all its endpoints and threads.
 *
 * A memory node distinguishes processes by lives: a process with a life's key can read and free
 * what is held in it. So a key is kept with the address that gave it, and a proof made with it is
 * sent to that address only. Two addresses have one life when each is in the list of addresses that
 * the other one sent: then both are the same node's. Endpoints with different keys have different
 * lives: a home is an address followed by the id of the endpoint's key. Layer: cn. Threads: any;
 * the table is under a lock. Entries live while a client uses them. */
#ifndef LEND_CN_LIFE_H
#define LEND_CN_LIFE_H

#include "cn/client.h"

void cn_life_home(const struct lend_ep *ep, const char *address, char home[CN_HOME_MAX]);
/* Count the clients that use an address. join returns 0 or -ENOMEM. */
int cn_life_join(const char *home);
void cn_life_leave(const char *home);
/* Gives a worker's address the name of the address that listed it, unless it was dialled before. */
void cn_life_name(const char *worker, const char *node);
/* Connects to an address under its name, which has this number. As lend_connect(). */
int cn_life_connect(struct lend_ep *ep, const char *home, lend_session *session, uint32_t *name);
/* Returns whether the address has got another name since: a session from before cannot join the
 * life. */
bool cn_life_renamed(const char *home, uint32_t name);

/* Writes the next message that a session sends to join this process's life at home: HELLO, with a
 * proof or for a new life; or RENEW while the session is not up, because a proof needs its channel
 * binding. False: client is 0 and there is no life to join. */
bool cn_life_encode(struct lend_ep *ep, lend_session session, const char *home, uint32_t client,
		    struct lend_memop *say);
/* Stores the life that a HELLO with life 0 has opened. Returns the life to use: another thread may
 * have opened one first. */
uint64_t cn_life_opened(const char *home, const struct lend_memhello *hello);
/* Forgets a life, because a HELLO with it was refused. */
void cn_life_ended(const char *home, uint64_t life);
/* Evaluates the reply to a HELLO: when this process has a life at another address of the same node,
 * this address gets the name and the life of that one. */
void cn_life_learn(const char *home, const struct lend_memhello *hello);

#endif
