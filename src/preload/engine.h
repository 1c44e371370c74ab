/* engine - an endpoint that the program's threads share, and the thread that runs its turns when no
 * other thread does.
 *
 * A thread that waits for a result runs the turns itself: no thread is woken for a reply. Functions
 * of the endpoint are called inside engine_enter(), or in a turn. So they never run at once, as an
 * endpoint requires. All state of this library is under engine_lock, except what only turns and
 * engine_enter() touch. No function of gRPC runs under the lock: it may call the program.
 * Layer: preload. Threads: any. */
#ifndef LEND_PRELOAD_ENGINE_H
#define LEND_PRELOAD_ENGINE_H

#include <pthread.h>
#include <stdbool.h>

#include "lend/rpc.h"

extern pthread_mutex_t engine_lock;

/* A function that runs after a turn, without the lock. */
struct engine_task {
	void (*run)(struct engine_task *task);
	struct engine_task *next;
};

struct batch;
struct engine {
	struct lend_ep *ep;
	pthread_cond_t changed; /* a turn has ended, or no thread wants to enter any more */
	pthread_cond_t parked;  /* the engine's thread is needed */
	bool turning;           /* a thread runs turns, without the lock */
	bool by_thread;         /* it is the engine's own thread */
	bool needed;            /* it runs the next turn */
	bool closing, closed;
	unsigned want;      /* threads that wait to enter */
	unsigned sleepers;  /* threads that wait for changed */
	unsigned unwatched; /* operations for which no thread of the program will run turns */
	unsigned handed;    /* threads that sleep in gRPC while the engine's thread runs turns */
	unsigned pending;   /* operations that have not ended */
	unsigned owed;      /* calls that arrived and are not freed */
	unsigned unsent;    /* batches that were started since one was sent at once */
	unsigned turns;     /* turns of the program's threads */
	unsigned seen;      /* turns when the engine's thread looked last */
	struct batch *finished, **finished_end; /* ended in this turn */
	struct engine_task *tasks, **tasks_end;
};

/* Opens an endpoint, and starts its thread. listen: NULL or addresses. Returns 0 or -errno. */
int engine_open(struct engine *e, const char *listen);
/* Ends the thread, and closes the endpoint. */
void engine_close(struct engine *e);

/* Takes the lock between two turns, so that functions of the endpoint may be called. */
void engine_enter(struct engine *e);
/* Delivers what has ended, releases the lock and runs the tasks. */
void engine_leave(struct engine *e);
/* Releases the lock, runs the tasks and takes the lock again. */
void engine_run_tasks(struct engine *e);
void engine_add_task(struct engine *e, struct engine_task *task);

/* Under the lock: runs turns until something happened, or a time. False, at once: another thread
 * runs turns, and the caller must wait in another way. */
bool engine_turn(struct engine *e, lend_ns until);
/* Under the lock: waits until a turn of another thread has ended, or a time. */
void engine_sleep(struct engine *e, lend_ns until);
/* Under the lock: lets the engine's thread run turns from now on. */
void engine_hand_over(struct engine *e);
lend_ns engine_now(void);

#endif
