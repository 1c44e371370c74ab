/* memnode_bench - see memnode_bench.h. */
#include "apps/common/memnode_bench.h"

#include <errno.h>
#include <string.h>

#include "apps/common/chart.h"
#include "apps/common/memnode.h"
#include "apps/common/options.h"
#include "apps/store/inproc_node.h"
#include "util/bits.h"

enum { WAIT_NS = 50000000 };

static const struct lend_option options[] = {
    OPT_TEXT(struct app_memory_args, node, "node", "ADDR",
	     "Use the memory node at ADDR instead of starting one"),
    OPT_FLAG(struct app_memory_args, pool, "pool",
	     "The node that this command starts shares its pages with this process (pool:)"),
    OPT_SIZE(struct app_memory_args, page, "page", APP_PAGE, APP_PAGE_MAX,
	     "Page size of the node that this command starts: 4K (default) to 2M"),
    OPT_TEXT(struct app_memory_args, plot, "plot", "FILE", "Draw the table into FILE, as SVG"),
    {.name = NULL}};

static void check_args(void *input)
{
	const struct app_memory_args *args = input;
	const struct app_load_args *load = &args->load;

	if (load->carrier == APP_DPDK_RING && !load->one_thread)
		app_bad("--carrier dpdk:ring: rings stay within one process; give dpdk:memif, or "
			"--one-thread");
	if (load->one_thread && (args->node || args->pool))
		app_bad("--one-thread has the node in this process: leave out --node and --pool");
	if (args->page && args->node)
		app_bad("--page is for the node that this command starts: leave out --node");
	if (args->page & (args->page - 1))
		app_bad("--page: give a power of two");
	if (args->pool && (args->node || load->carrier != APP_SHM))
		app_bad("--pool starts a node on this host: leave out --node and --carrier");
}

const struct lend_syntax app_memory_syntax = {.option = options,
					      .child = &app_load_syntax,
					      .child_at = offsetof(struct app_memory_args, load),
					      .check = check_args};

static void open_client(const struct app_memory *m, struct lend_config *config, uint64_t bytes,
			struct lend_ep **ep, struct lend_mem **mem)
{
	config->receive_budget = bytes > 32 << 20 ? 2 * bytes : 0;
	if (lend_open(config, ep) < 0)
		app_die("%s", lend_why());
	*mem = app_node_open(*ep, app_net_address(&m->net, m->me, m->node));
}

static void open_inproc(struct app_memory *m, uint64_t bytes)
{
	char address[APP_ADDRESS_MAX];

	m->inproc = app_inproc_open(app_net_listen(&m->net, m->node), app_net_eal(&m->net, m->node),
				    bytes, m->args.page, address, sizeof(address));
	app_net_ready(&m->net, m->node, address);
}

void app_memory_open(struct app_memory *m, const struct app_memory_args *args, uint64_t bytes)
{
	struct lend_config config = LEND_CONFIG_INIT;

	*m = (struct app_memory){.args = *args};
	bytes = lend_max_u64(bytes, UINT64_C(64) * args->page);
	app_net_init(&m->net, args->load.carrier);
	m->me = app_net_add(&m->net);
	m->node = app_net_add(&m->net);
	app_net_link(&m->net, m->me, m->node);
	m->net.page = args->page;
	app_net_plan(&m->net);
	if (args->pool)
		app_net_pool(&m->net, m->node);
	if (args->load.one_thread)
		open_inproc(m, bytes);
	else if (args->node)
		app_net_ready(&m->net, m->node, args->node);
	else
		app_child_start_mn(&m->mn, &m->net, m->node, bytes, app_cpu(1));
	config.listen = app_net_listen(&m->net, m->me);
	config.eal = app_net_eal(&m->net, m->me);
	open_client(m, &config, args->load.size, &m->ep, &m->mem);
	app_pin(app_cpu(0));
}

void app_memory_client(const struct app_memory *m, uint64_t size, unsigned window,
		       struct lend_ep **ep, struct lend_mem **mem)
{
	struct lend_config config = LEND_CONFIG_INIT;

	config.calls = window < 128 ? 0 : window;
	open_client(m, &config, size * window, ep, mem);
}

void app_memory_leave(const struct app_memory *m, struct lend_ep *ep, struct lend_mem *mem)
{
	app_inproc_alone_begin(m->inproc);
	lend_mem_close(mem);
	lend_close(ep);
	app_inproc_alone_end(m->inproc);
}

void app_memory_close(struct app_memory *m)
{
	app_memory_leave(m, m->ep, m->mem);
	app_inproc_close(m->inproc);
	app_child_stop(&m->mn);
	app_unpin();
}

void app_memory_plot(const struct app_memory_args *args, const struct chart *chart)
{
	if (!chart_write(args->plot, chart, 1))
		app_die("%s: %s; name a file that can be written", args->plot, strerror(errno));
}

static void op_ended(struct lend_op *op)
{
	((struct app_timed *)(void *)op)->ended = true;
}

struct lend_op *app_timed_begin(struct app_timed *t)
{
	*t = (struct app_timed){.op = {.done = op_ended, .timeout = 12 * APP_CALL_NS}};
	t->began = app_ticks();
	return &t->op;
}

uint64_t app_timed_end(struct app_memory *m, struct app_timed *t, int rc, const char *what)
{
	uint64_t ticks;

	while (rc >= 0 && !t->ended) {
		if (m->inproc)
			app_inproc_turn(m->inproc);
		rc = m->args.load.sleep && !m->inproc ? lend_wait(m->ep, lend_now(m->ep) + WAIT_NS)
						      : lend_poll(m->ep);
	}
	ticks = app_ticks() - t->began;
	if (rc < 0 || t->op.status != LEND_OK)
		app_node_wait(m->mem, &t->op, rc, what);
	return ticks;
}

void app_timed_add(struct app_memory *m, struct app_timed *t, int rc, const char *what,
		   struct lend_hist *hist)
{
	uint64_t ticks = app_timed_end(m, t, rc, what);

	lend_hist_add(hist, (uint64_t)((double)ticks / app_ticks_per_ns()));
}

void app_memory_stat(struct app_memory *m, struct lend_mem_stat *stat)
{
	struct app_timed t;

	(void)app_timed_end(m, &t, lend_mem_stat_get(m->mem, 0, stat, app_timed_begin(&t)), "stat");
}

void app_memory_stat_idle(struct app_memory *m, struct lend_mem_stat *stat)
{
	lend_ns until = app_now() + 1000000000;

	do
		app_memory_stat(m, stat);
	while (stat->pages_used && app_now() < until);
}
