/* reach - see reach.h. */
#include "apps/tools/reach.h"

#include "apps/common/options.h"

struct wait {
	bool up, ended;
};

static void watch(lend_session session, const uint8_t incarnation[16], bool up, void *arg)
{
	struct wait *wait = arg;

	(void)session, (void)incarnation;
	wait->up = up;
	wait->ended = !up;
}

lend_ns app_reach(struct lend_ep *ep, const char *address, lend_ns timeout, lend_session *session)
{
	lend_ns began = lend_now(ep), end = began + timeout;
	struct wait wait = {.up = false};

	(void)lend_watch_sessions(ep, watch, &wait);
	if (lend_connect(ep, address, session) < 0)
		app_die("%s", lend_why());
	while (!wait.up && !wait.ended && lend_now(ep) < end)
		if (lend_wait(ep, end) < 0)
			app_die("%s", lend_why());
	(void)lend_watch_sessions(ep, NULL, NULL);
	if (wait.ended)
		app_die("UNAVAILABLE: %s", lend_why());
	if (!wait.up)
		app_die("UNAVAILABLE: %s: no session after %.1f s; start the server there, or fix "
			"the address",
			address, (double)timeout / 1e9);
	return lend_now(ep) - began;
}

const char *app_reach_why(enum lend_status status)
{
	switch (status) {
	case LEND_DEADLINE_EXCEEDED:
		return "no reply in time; give a longer --timeout, or look at the server with lend "
		       "top";
	case LEND_UNIMPLEMENTED:
		return "the server has no such method; give the number of one that it serves";
	case LEND_UNAVAILABLE:
		return "the server ended during the call; start it again";
	case LEND_RESOURCE_EXHAUSTED:
		return "the server is busy or full; try again, or send less";
	case LEND_PERMISSION_DENIED:
	case LEND_UNAUTHENTICATED:
		return "the server refuses this user; give --keys FILE with a key that it accepts";
	default:
		return "the server's handler replied with this status; its service knows why";
	}
}
