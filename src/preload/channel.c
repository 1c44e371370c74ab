/* channel - see channel.h. */
#include "preload/channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/carried.h"

/* A handshake over a network gets this much time, once; pauses between attempts double. */
static const lend_ns handshake_ns = 100000000, retry_min_ns = 500000000, retry_max_ns = 30000000000;

static struct table channels = {.lock = PTHREAD_MUTEX_INITIALIZER};
struct engine channel_engine;
static pthread_once_t engine_once = PTHREAD_ONCE_INIT;
static bool engine_runs;
static _Thread_local grpc_channel_credentials *insecure;

struct channel *channel_find(grpc_channel *channel)
{
	return table_find(&channels, channel);
}

/* The child of a fork has no endpoint. */
static void stop_in_child(void)
{
	real_functions.active = false;
}

static void open_engine(void)
{
	engine_runs = engine_open(&channel_engine, NULL) == 0 &&
		      pthread_atfork(NULL, NULL, stop_in_child) == 0;
}

static const char *after_prefix(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) ? text : text + strlen(prefix);
}

bool channel_split(const char *target, char *host, size_t cap, unsigned *port)
{
	const char *at = after_prefix(target, "dns:");
	char *end, *colon;

	at = after_prefix(after_prefix(at, "///"), "ipv4:");
	if (strpbrk(at, "/,[") || strlen(at) >= cap)
		return false;
	strcpy(host, at);
	colon = strchr(host, ':');
	if (!colon || colon == host || strchr(colon + 1, ':'))
		return false;
	*colon = 0;
	*port = (unsigned)strtoul(colon + 1, &end, 10);
	return !*end && *port > 0 && *port < 65536;
}

static bool has_address(struct in_addr address)
{
	struct ifaddrs *all, *one;
	bool found = false;

	if (getifaddrs(&all) < 0)
		return false;
	for (one = all; one && !found; one = one->ifa_next)
		found = one->ifa_addr && one->ifa_addr->sa_family == AF_INET &&
			((struct sockaddr_in *)(void *)one->ifa_addr)->sin_addr.s_addr ==
			    address.s_addr;
	freeifaddrs(all);
	return found;
}

static bool is_local(const char *host)
{
	struct in_addr address;
	char name[256];

	if (!strcmp(host, "localhost"))
		return true;
	if (inet_pton(AF_INET, host, &address) == 1)
		return (ntohl(address.s_addr) >> 24) == 127 || !address.s_addr ||
		       has_address(address);
	return gethostname(name, sizeof(name)) == 0 && !strcmp(host, name);
}

static int integer_of(const grpc_channel_args *args, const char *key, int otherwise)
{
	for (size_t i = 0; args && i < args->num_args; i++)
		if (!strcmp(args->args[i].key, key) && args->args[i].type == GRPC_ARG_INTEGER)
			return args->args[i].value.integer;
	return otherwise;
}

/* A service configuration has timeouts and retries, a proxy another address. */
static bool needs_grpc(const grpc_channel_args *args)
{
	for (size_t i = 0; args && i < args->num_args; i++)
		if (!strcmp(args->args[i].key, GRPC_ARG_SERVICE_CONFIG) ||
		    !strcmp(args->args[i].key, "grpc.http_proxy"))
			return true;
	return false;
}

static void add_channel(grpc_channel *channel, const char *target, const grpc_channel_args *args)
{
	struct channel *c = calloc(1, sizeof(*c));

	if (!c)
		return;
	if (!channel_split(target, c->host, sizeof(c->host), &c->port) || needs_grpc(args) ||
	    pthread_once(&engine_once, open_engine) != 0 || !engine_runs) {
		free(c);
		return;
	}
	c->local = is_local(c->host);
	c->receive_max = integer_of(args, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
				    GRPC_DEFAULT_MAX_RECV_MESSAGE_LENGTH);
	c->send_max = integer_of(args, GRPC_ARG_MAX_SEND_MESSAGE_LENGTH,
				 GRPC_DEFAULT_MAX_SEND_MESSAGE_LENGTH);
	c->refs = 1;
	c->retry_ns = retry_min_ns;
	table_put(&channels, channel, &c->node);
}

/* Returns 1: the session is up; 0: not yet; -1: it has ended. */
static int look_at_session(const struct channel *c)
{
	static const uint8_t none[16];
	struct lend_peer peer;

	if (c->up)
		return lend_session_message_max(channel_engine.ep, c->session) ? 1 : -1;
	if (lend_session_peer(channel_engine.ep, c->session, &peer) < 0)
		return -1;
	return memcmp(peer.incarnation, none, sizeof(none)) != 0;
}

/* Opens a session, and gives its handshake a short time. Calls need not wait for one within this
 * host: the carrier knows whether an endpoint listens. */
static void connect_channel(struct channel *c, lend_ns now)
{
	char address[300];
	lend_ns until;

	(void)snprintf(address, sizeof(address), "shm:grpc-%u", c->port);
	c->up = c->open = c->local && lend_connect(channel_engine.ep, address, &c->session) == 0;
	if (c->open)
		return;
	(void)snprintf(address, sizeof(address), "udp:%s:%u", c->host, c->port);
	c->open = lend_connect(channel_engine.ep, address, &c->session) == 0;
	/* Within a host a refusal arrives at once, so only a busy peer takes long. */
	until = now + (c->local ? 10 : 1) * handshake_ns;
	while (c->open && look_at_session(c) == 0 && engine_now() < until) {
		(void)lend_poll(channel_engine.ep);
		sched_yield();
	}
}

/* The session has ended. */
static void drop_session(struct channel *c)
{
	c->open = c->up = false;
	lend_disconnect(channel_engine.ep, c->session);
}

bool channel_session(struct channel *c, lend_session *session)
{
	lend_ns now = c->up ? 0 : engine_now();

	if (!c->open && now >= c->retry_at) {
		connect_channel(c, now);
		c->retry_at = now + c->retry_ns;
		c->retry_ns = 2 * c->retry_ns > retry_max_ns ? retry_max_ns : 2 * c->retry_ns;
	}
	if (!c->open)
		return false;
	switch (look_at_session(c)) {
	case 1:
		c->up = true;
		c->retry_ns = retry_min_ns;
		break;
	case -1:
		drop_session(c);
		break;
	}
	*session = c->session;
	return c->up;
}

void channel_unref(struct channel *c)
{
	if (--c->refs)
		return;
	if (c->open)
		lend_disconnect(channel_engine.ep, c->session);
	free(c);
}

REPLACES grpc_channel_credentials *grpc_insecure_credentials_create(void)
{
	insecure = real_grpc()->grpc_insecure_credentials_create();
	return insecure;
}

REPLACES void grpc_channel_credentials_release(grpc_channel_credentials *creds)
{
	if (creds == insecure)
		insecure = NULL;
	real_grpc()->grpc_channel_credentials_release(creds);
}

REPLACES grpc_channel *grpc_channel_create(const char *target, grpc_channel_credentials *creds,
					   const grpc_channel_args *args)
{
	grpc_channel *channel = real_grpc()->grpc_channel_create(target, creds, args);

	if (channel && real_grpc()->active && creds && creds == insecure)
		add_channel(channel, target, args);
	return channel;
}

REPLACES void grpc_channel_destroy(grpc_channel *channel)
{
	struct channel *c = table_remove(&channels, channel);
	struct carried *idle;

	if (c) {
		engine_enter(&channel_engine);
		c->closed = true;
		idle = idle_detach(c);
		channel_unref(c);
		engine_leave(&channel_engine);
		idle_release(idle);
	}
	real_grpc()->grpc_channel_destroy(channel);
}
