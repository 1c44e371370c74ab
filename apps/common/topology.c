/* topology - see topology.h. */
#include "apps/common/topology.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/common/report.h"
#include "lend/carrier.h"
#include "util/check.h"

static const char *const names[] = {
    [APP_SHM] = "shm",
    [APP_UDP] = "udp",
    [APP_DPDK_MEMIF] = "dpdk:memif",
    [APP_DPDK_RING] = "dpdk:ring",
};

/* Older spellings, which are no addresses. */
static const char *const was[] = {[APP_DPDK_MEMIF] = "dpdk-memif", [APP_DPDK_RING] = "dpdk-ring"};

/* The carrier behind APP_GIVEN: a command line names one carrier, so there is one per process. */
static struct {
	char name[APP_ADDRESS_MAX];   /* as it was given */
	char listen[APP_ADDRESS_MAX]; /* "": processes are clients only */
	char eal[APP_EAL_MAX];        /* "": none */
} given;

const char *app_carrier_name(enum app_carrier carrier)
{
	return carrier == APP_GIVEN ? given.name : names[carrier];
}

const char *app_carrier_level(enum app_carrier carrier)
{
	const char *name = app_carrier_name(carrier);
	char address[sizeof(given.name) + 2];

	(void)snprintf(address, sizeof(address), "%s%s", name,
		       carrier == APP_GIVEN ? ""
		       : strchr(name, ':')  ? "@"
					    : ":");
	return lend_carrier_level(address);
}

bool app_carrier_scales(enum app_carrier carrier)
{
	return carrier != APP_GIVEN || lend_carrier_traits(given.name) & LEND_CARRIER_QUEUES ||
	       strstr(given.name, "queues=");
}

void app_report_carrier(struct app_report *report, enum app_carrier carrier)
{
	app_report_text(report, "carrier", app_carrier_name(carrier), "");
	app_report_text(report, "level", app_carrier_level(carrier), "protection of its datagrams");
}

static bool give_address(const char *text)
{
	size_t len = strcspn(text, " ");

	if (!memchr(text, ':', len) || len >= sizeof(given.listen) ||
	    strlen(text + len) >= sizeof(given.eal))
		return false;
	snprintf(given.listen, sizeof(given.listen), "%.*s", (int)len, text);
	memcpy(given.name, given.listen, sizeof(given.name));
	snprintf(given.eal, sizeof(given.eal), "%s", text + len);
	return true;
}

enum app_carrier app_carrier_of(const char *address)
{
	if (!strncmp(address, "shm:", 4))
		return APP_SHM;
	if (!strncmp(address, "udp:", 4))
		return APP_UDP;
	if (!strncmp(address, "dpdk:", 5))
		return APP_DPDK_MEMIF;
	snprintf(given.name, sizeof(given.name), "%s", address);
	given.listen[0] = given.eal[0] = 0;
	return APP_GIVEN;
}

bool app_carrier_parse(const char *text, enum app_carrier *carrier)
{
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(text, names[i]) && (!was[i] || strcmp(text, was[i])))
			continue;
		*carrier = (enum app_carrier)i;
		return true;
	}
	*carrier = APP_GIVEN;
	return give_address(text);
}

void app_net_init(struct app_net *net, enum app_carrier carrier)
{
	memset(net, 0, sizeof(*net));
	net->carrier = carrier;
}

unsigned app_net_add(struct app_net *net)
{
	LEND_CHECK(net->procs < APP_PROCS_MAX);
	return net->procs++;
}

void app_net_link(struct app_net *net, unsigned client, unsigned server)
{
	LEND_CHECK(net->links < APP_LINKS_MAX && client < net->procs && server < net->procs);
	net->link[net->links].client = (unsigned char)client;
	net->link[net->links].server = (unsigned char)server;
	net->links++;
}

/* Copies text, replacing each %p by the process's number. */
static void fill_in(char *to, size_t cap, const char *text, unsigned proc)
{
	size_t n = 0;

	for (; *text && n + 4 < cap; text++) {
		if (text[0] == '%' && text[1] == 'p')
			n += (size_t)snprintf(to + n, cap - n, "%u", proc + 1), text++;
		else
			to[n++] = *text;
	}
	to[n] = 0;
}

/* Chooses a server's listening address. Only shm needs a name chosen here; for other carriers port
 * 0 lets the carrier choose. */
static void plan_server(struct app_net *net, unsigned proc, enum app_carrier carrier)
{
	static unsigned run;
	char *listen = net->listen[proc];

	switch (carrier) {
	case APP_SHM:
		snprintf(listen, APP_ADDRESS_MAX, "shm:run-%d-%u", (int)getpid(), run++);
		break;
	case APP_UDP:
		snprintf(listen, APP_ADDRESS_MAX, "udp:127.0.0.1:0");
		break;
	case APP_DPDK_MEMIF:
		snprintf(listen, APP_ADDRESS_MAX, "dpdk:memif@127.0.0.1:0");
		break;
	case APP_DPDK_RING:
		snprintf(listen, APP_ADDRESS_MAX, "dpdk:ring@127.0.0.1:0");
		break;
	case APP_GIVEN:
		fill_in(listen, APP_ADDRESS_MAX, given.listen, proc);
		break;
	}
}

void app_net_plan(struct app_net *net)
{
	for (unsigned i = 0; i < net->links; i++)
		if (!net->listen[net->link[i].server][0])
			plan_server(net, net->link[i].server, net->carrier);
	if (net->carrier != APP_GIVEN)
		return;
	for (unsigned proc = 0; proc < net->procs; proc++) {
		/* Clients also need an address, for their own device. */
		plan_server(net, proc, APP_GIVEN);
		fill_in(net->eal[proc], APP_EAL_MAX, given.eal, proc);
	}
}

void app_net_apart(struct app_net *net, unsigned proc)
{
	if (net->carrier == APP_DPDK_RING)
		plan_server(net, proc, APP_SHM);
}

void app_net_pool(struct app_net *net, unsigned proc)
{
	snprintf(net->listen[proc], APP_ADDRESS_MAX, "pool:run-%d", (int)getpid());
}

const char *app_net_listen(const struct app_net *net, unsigned proc)
{
	return net->listen[proc][0] ? net->listen[proc] : NULL;
}

const char *app_net_eal(const struct app_net *net, unsigned proc)
{
	return net->eal[proc][0] ? net->eal[proc] : NULL;
}

void app_net_ready(struct app_net *net, unsigned proc, const char *address)
{
	snprintf(net->address[proc], APP_ADDRESS_MAX, "%s", address);
}

void app_net_cross(const struct app_net *net, unsigned client, char address[APP_ADDRESS_MAX])
{
	const char *own = net->listen[client], *host = strchr(address, '@');
	char text[APP_ADDRESS_MAX];

	if (net->carrier != APP_GIVEN || !host || !strchr(own, '@') ||
	    lend_carrier_traits(own) & LEND_CARRIER_NAMES)
		return;
	snprintf(text, sizeof(text), "%.*s%s", (int)strcspn(own, "@"), own, host);
	memcpy(address, text, sizeof(text));
}

const char *app_net_address(const struct app_net *net, unsigned client, unsigned server)
{
	(void)client; /* every client gets the same address: carriers make a link per pair by
			 themselves */
	LEND_CHECK(net->address[server][0]);
	return net->address[server];
}
