/* top - the state of endpoints and their sessions, queried periodically.
 *
 * Each endpoint is queried by a call (LEND_METHOD_STATS). Rates are the differences of two replies.
 * Layer: apps. Threads: one. */
#include <dirent.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/commands.h"
#include "apps/common/options.h"
#include "apps/common/closed_loop.h"
#include "apps/common/report.h"
#include "apps/tools/top.h"
#include "util/bits.h"

enum { KEY_ONCE = 0x7c01, KEY_INTERVAL, KEY_JSON };
enum { HEAD_MIN = offsetof(struct lend_stats_head, refs) }; /* of versions that lack the rest */
#define ASK_NS UINT64_C(1000000000)

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
	(void)number;
	stopping = 1;
}

/* Adds a server; returns NULL when it is already in the list, or the list is full. */
static struct top_server *add_server(struct top *top, const char *address)
{
	for (unsigned i = 0; i < top->n; i++)
		if (!strcmp(top->server[i].address, address))
			return NULL;
	if (top->n == TOP_SERVERS || strlen(address) >= sizeof(top->server[0].address))
		return NULL;
	strcpy(top->server[top->n].address, address);
	return &top->server[top->n++];
}

/* Adds the server behind a socket name if a connection to it succeeds. A killed process leaves its
 * name behind. */
static void try_name(struct top *top, const char *name)
{
	struct top_server *s;
	char address[300];

	snprintf(address, sizeof(address), "shm:%s", name);
	s = add_server(top, address);
	if (!s)
		return;
	s->connected = lend_connect(top->ep, address, &s->session) == 0;
	top->n -= !s->connected;
}

/* Finds this user's endpoints that listen on shm. */
static void find_servers(struct top *top)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	char path[3][512];
	DIR *dir = NULL;

	snprintf(path[0], sizeof(path[0]), "%s/lend", xdg && *xdg == '/' ? xdg : "");
	snprintf(path[1], sizeof(path[1]), "/run/user/%u/lend", (unsigned)geteuid());
	snprintf(path[2], sizeof(path[2]), "/tmp/lend-%u", (unsigned)geteuid());
	for (int i = 0; i < 3 && !dir; i++)
		dir = opendir(path[i]);
	for (struct dirent *e; dir && (e = readdir(dir));)
		if (e->d_type == DT_SOCK)
			try_name(top, e->d_name);
	if (dir)
		closedir(dir);
}

static void fail_server(const struct top *top, struct top_server *s, const char *why)
{
	if (top->named && !s->failure_reported)
		app_note("%s: %s", s->address, why);
	s->failure_reported = true;
	s->now.n = 0;
	s->now.head.size = 0;
	if (s->connected)
		lend_disconnect(top->ep, s->session);
	s->connected = false;
}

static bool take_reply(struct top_view *view, const struct lend_buf *reply)
{
	struct lend_stats_head *head = &view->head;
	const char *at = reply->data;

	if (reply->next || reply->len < HEAD_MIN)
		return false;
	memset(head, 0, sizeof(*head));
	memcpy(head, at, HEAD_MIN);
	if (head->size < HEAD_MIN || head->session_size < sizeof(view->session[0]) ||
	    head->session_size > 4096 || head->n > 4096 || head->size > reply->len ||
	    reply->len - head->size < (uint64_t)head->n * head->session_size)
		return false;
	if (head->size > HEAD_MIN)
		memcpy(&head->refs, at + HEAD_MIN,
		       head->size < sizeof(*head) ? head->size - HEAD_MIN : sizeof(head->refs));
	at += head->size;
	for (uint32_t i = 0; i < head->n && view->n < TOP_SESSIONS; i++) {
		memcpy(&view->session[view->n], at, sizeof(view->session[0]));
		view->session[view->n++].peer[sizeof(view->session[0].peer) - 1] = 0;
		at += head->session_size;
	}
	return true;
}

/* Makes one call of a round. Returns NULL, or the reason why there is no answer. */
static const char *ask_from(struct top *top, struct top_server *s, uint32_t from)
{
	struct lend_call call = {.method = LEND_METHOD_STATS, .timeout = ASK_NS};
	const char *why = NULL;

	call.request = lend_buf_take(top->ep, 4);
	if (!call.request)
		return "no buffer";
	lend_store_u32(call.request->data, from);
	call.request->len = 4;
	if (lend_call_sync(top->ep, s->session, &call) < 0)
		return lend_why();
	if (call.status == LEND_PERMISSION_DENIED)
		why = "it tells its own user over shm alone, and who has its secret: give both "
		      "the same LEND_SECRET";
	else if (call.status == LEND_UNIMPLEMENTED)
		why = "it is of a version without this: restart it";
	else if (call.status != LEND_OK)
		why = app_status_name(call.status);
	else if (!take_reply(&s->now, call.reply))
		why = "its answer makes no sense: is it of this version?";
	if (call.reply)
		lend_buf_give(top->ep, call.reply);
	if (call.request)
		lend_buf_give(top->ep, call.request);
	return why;
}

static void query_server(struct top *top, struct top_server *s)
{
	struct top_view view = s->before;
	const char *why = NULL;
	uint32_t from = 0;

	s->before = s->now;
	s->now = view;
	s->now.n = 0;
	if (!s->connected && lend_connect(top->ep, s->address, &s->session) < 0) {
		fail_server(top, s, lend_why());
		return;
	}
	s->connected = true;
	do {
		why = ask_from(top, s, from);
		from = s->now.head.next;
	} while (!why && from && s->now.n < TOP_SESSIONS);
	if (why)
		fail_server(top, s, why);
}

void top_query(struct top *top)
{
	if (!top->named)
		find_servers(top);
	for (unsigned i = 0; i < top->n && !stopping; i++) {
		struct top_server *s = &top->server[i];

		if (!s->now.session) {
			s->now.session = calloc(TOP_SESSIONS, sizeof(s->now.session[0]));
			s->before.session = calloc(TOP_SESSIONS, sizeof(s->now.session[0]));
			if (!s->now.session || !s->before.session)
				app_die("no memory for what %s tells", s->address);
		}
		query_server(top, s);
	}
}

bool top_end(struct top *top)
{
	bool any = false;

	for (unsigned i = 0; i < top->n; i++) {
		any |= top->server[i].now.head.size > 0;
		free(top->server[i].now.session);
		free(top->server[i].before.session);
	}
	return any;
}

static void watch_servers(struct top *top)
{
	lend_ns next = app_now();

	top_query(top);
	do {
		next += top->interval;
		while (!stopping && app_now() < next)
			if (lend_wait(top->ep, lend_now(top->ep) + (next - app_now())) < 0)
				app_die("%s", lend_why());
		if (stopping)
			return;
		top_query(top);
		top_show(top);
	} while (!top->once);
}

static void take_address(const struct lend_option *option, void *input, char *value)
{
	struct top *top = input;

	(void)option;
	if (strlen(value) >= sizeof(top->server[0].address))
		app_bad("%s: too long an address", value);
	add_server(top, value);
	top->named = true;
}

static const struct lend_option options[] = {
    OPT_TAKEN("", NULL, take_address, NULL),
    OPT_FLAG(struct top, once, "once", "Print one interval and leave"),
    OPT_TIME(struct top, interval, "interval", "Between two looks: 1s unless given"),
    OPT_FLAG(struct top, json, "json", "One JSON object on one line per interval"),
    {.name = NULL}};

static const char doc[] =
    "What endpoints and their sessions are doing: rates, round trips, credit, queues.\v"
    "Without an address: all endpoints of this user that listen at shm:NAME. Others tell only who "
    "was given their secret (LEND_SECRET). RX/s and TX/s are datagrams, FLIGHT those of long "
    "messages under way and how many may be, CREDIT bytes that may go without a grant, GRANT bytes "
    "that the peer may send. References: arguments that this process read in place, "
    "copied although its host has them, or sent by value for lack of another way. Being asked "
    "costs an endpoint one call; nothing is counted for it.\n\n"
    "  lend top\n"
    "  lend top shm:mn0 --once --json\n"
    "  LEND_SECRET=tulip lend top udp:10.0.0.2:31850 --interval 5";

int app_top(int argc, char **argv)
{
	static const struct lend_syntax syntax = {
	    .option = options, .words = "[ADDRESS...]", .doc = doc};
	static struct top top;
	struct sigaction action = {.sa_handler = on_signal};
	struct lend_config config = LEND_CONFIG_INIT;
	bool any;

	top.interval = UINT64_C(1000000000);
	app_options_read(&syntax, argc, argv, &top);
	if (lend_open(&config, &top.ep) < 0)
		app_die("%s", lend_why());
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	watch_servers(&top);
	any = top_end(&top);
	lend_close(top.ep);
	return top.named && !any ? APP_EXIT_FAILED : APP_EXIT_OK;
}
