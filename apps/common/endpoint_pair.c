/* endpoint_pair - see endpoint_pair.h. */
#include "apps/common/endpoint_pair.h"

#include <inttypes.h>
#include <stdio.h>

#include "apps/common/echo.h"
#include "apps/common/closed_loop.h"

static void start_server(struct app_pair *p, bool spins, const struct lend_config *config)
{
	char calls[16], sessions[16], message_max[24], budget[24];
	const char *argv[] = {"serve",
			      "--calls",
			      calls,
			      "--sessions",
			      sessions,
			      "--message-max",
			      message_max,
			      "--receive-budget",
			      budget,
			      "--schedule",
			      app_schedule_names[config->schedule],
			      spins ? "--spin" : NULL,
			      NULL};

	snprintf(calls, sizeof(calls), "%u", config->calls);
	snprintf(sessions, sizeof(sessions), "%u", config->sessions);
	snprintf(message_max, sizeof(message_max), "%" PRIu64, config->message_max);
	snprintf(budget, sizeof(budget), "%" PRIu64, config->receive_budget);
	app_child_start(&p->child, "the server", argv, &p->net, p->server,
			app_cpus() > 1 ? app_cpu(1) : APP_ANY_CPU);
}

static struct lend_ep *open_as(const struct app_pair *p, unsigned proc, struct lend_config config)
{
	struct lend_ep *ep;

	config.listen = app_net_listen(&p->net, proc);
	config.eal = app_net_eal(&p->net, proc);
	if (lend_open(&config, &ep) < 0)
		app_die("%s", lend_why());
	return ep;
}

static void open_other(struct app_pair *p, const struct lend_config *config)
{
	char address[APP_ADDRESS_MAX];

	p->other = open_as(p, p->server, *config);
	if (lend_address(p->other, address, sizeof(address)) < 0)
		app_die("%s", lend_why());
	app_net_cross(&p->net, p->me, address);
	app_echo_serve(p->other);
	app_net_ready(&p->net, p->server, address);
}

void app_pair_open(struct app_pair *p, const struct app_load_args *args,
		   const struct lend_config *config)
{
	*p = (struct app_pair){.ep = NULL};
	if (args->one_thread && args->connect)
		app_bad("--one-thread --connect: the server is in another process; give one of "
			"them");
	app_net_init(&p->net, app_load_carrier(args));
	p->me = app_net_add(&p->net);
	p->server = app_net_add(&p->net);
	app_net_link(&p->net, p->me, p->server);
	app_net_plan(&p->net);
	if (args->connect)
		app_net_ready(&p->net, p->server, args->connect);
	else if (args->one_thread || args->carrier == APP_DPDK_RING)
		open_other(p, config); /* rings do not reach another process */
	else
		start_server(p, !args->sleep && app_cpus() > 1, config);
	p->ep = open_as(p, p->me, *config);
	app_pin(app_cpu(0));
}

const char *app_pair_address(const struct app_pair *p)
{
	return app_net_address(&p->net, p->me, p->server);
}

void app_pair_poll(const struct app_pair *p)
{
	if (lend_poll(p->ep) < 0 || (p->other && lend_poll(p->other) < 0))
		app_die("%s", lend_why());
}

void app_pair_close(struct app_pair *p)
{
	lend_close(p->ep);
	if (p->other)
		lend_close(p->other);
	app_child_stop(&p->child);
	app_unpin();
}
