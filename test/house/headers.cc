/* Goal: C++ programs use the public headers without a warning. Method: headers.sh compiles this file,
 * which includes each header and names each struct that has a function of a similar name. */
#include <lend/alloc.h>
#include <lend/mem.h>
#include <lend/one_sided.h>
#include <lend/rpc.h>
#include <lend/stats.h>
#include <lend/stream.h>

int main()
{
	lend_config config = LEND_CONFIG_INIT;
	lend_ep *ep = nullptr;
	lend_stats stats;
	lend_alloc_stat heap;
	lend_alloc_watch watch = {nullptr, nullptr, nullptr};
	lend_mem_cache_stat cache;

	config.listen = "shm:cpp";
	if (lend_open(&config, &ep) < 0)
		return 1;
	lend_stats_get(ep, &stats);
	lend_alloc_stat_get(&heap);
	lend_alloc_watch_remove(lend_alloc_watch_add(&watch));
	lend_mem_cache_stat_get(&cache);
	lend_close(ep);
	return 0;
}
