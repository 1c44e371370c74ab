/* slow - a handler that takes its time, and ends early when its caller has a deadline or cancels.
 *   cc -o slow slow.c $(pkg-config --cflags --libs lend)
 *   ./slow &             serves at shm:slow
 *   ./slow 3             works for 3 s; ^C cancels the call
 *   ./slow 3 1           DEADLINE_EXCEEDED after 1 s
 */
#define _POSIX_C_SOURCE 200809L
#include <lend/rpc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WORK = 1, STEP_MS = 10 };

static struct lend_ep *ep;
static volatile sig_atomic_t interrupted;

/* Runs in a worker thread (LEND_SLOW), so that the endpoint's thread keeps serving. */
static void work(lend_request request, const struct lend_buf *in, void *arg)
{
	const struct timespec step = {.tv_nsec = STEP_MS * 1000000};
	enum lend_status status = LEND_OK;
	uint32_t steps, i;

	(void)arg;
	if (in->len != sizeof(steps)) {
		lend_reply_why(ep, request, LEND_INVALID_ARGUMENT,
			       "send the number of steps in 4 bytes");
		return;
	}
	__builtin_memcpy(&steps, in->data, sizeof(steps));
	for (i = 0; i < steps && status == LEND_OK; i++) {
		if (lend_request_cancelled(ep, request))
			status = LEND_CANCELLED;
		else if (lend_request_left(ep, request) == 0)
			status = LEND_DEADLINE_EXCEEDED;
		else
			nanosleep(&step, NULL);
	}
	printf("%s after %u ms\n", status ? "the caller gave up" : "done", i * STEP_MS);
	fflush(stdout);
	lend_reply(ep, request, status, NULL);
}

static void on_interrupt(int number)
{
	(void)number;
	interrupted = 1;
	lend_stop(ep);
}

static void done(struct lend_call *call)
{
	printf("%s\n", call->status == LEND_OK                  ? "OK"
		       : call->status == LEND_CANCELLED         ? "CANCELLED"
		       : call->status == LEND_DEADLINE_EXCEEDED ? "DEADLINE_EXCEEDED"
								: "failed");
	call->method = 0; /* no longer in progress */
}

static int ask(double seconds, double timeout)
{
	struct lend_call call = {.method = WORK, .done = done, .timeout = LEND_NEVER};
	uint32_t steps = (uint32_t)(seconds * 1000 / STEP_MS);
	struct sigaction on_int = {.sa_handler = on_interrupt};
	lend_session session;
	int rc;

	if (timeout > 0)
		call.timeout = (lend_ns)(timeout * 1e9);
	call.request = lend_buf_wrap(ep, &steps, sizeof(steps), NULL, NULL);
	if ((rc = lend_connect(ep, "shm:slow", &session)) < 0 ||
	    (rc = lend_call_start(ep, session, &call)) < 0)
		return rc;
	sigaction(SIGINT, &on_int, NULL);
	while (call.method && rc >= 0) {
		rc = lend_wait(ep, LEND_NEVER);
		if (interrupted)
			lend_call_cancel(ep, &call);
	}
	return rc < 0 ? rc : call.status != LEND_OK;
}

int main(int argc, char **argv)
{
	struct lend_config config = LEND_CONFIG_INIT;
	int rc;

	config.listen = argc > 1 ? NULL : "shm:slow";
	rc = lend_open(&config, &ep);
	if (rc == 0 && argc > 1)
		rc = ask(atof(argv[1]), argc > 2 ? atof(argv[2]) : 0);
	else if (rc == 0 && (rc = lend_serve(ep, WORK, work, NULL, LEND_SLOW)) == 0)
		rc = lend_run(ep, LEND_NEVER);
	if (rc < 0)
		fprintf(stderr, "slow: %s\n", lend_why());
	lend_close(ep); /* notifies the server before the process ends */
	return rc != 0;
}
