/* images_sweep - see images_sweep.h. */
#include "apps/images/images_sweep.h"

#include "apps/common/closed_loop.h"
#include "apps/common/options.h"
#include "util/bits.h"

enum { SIDE_MIN = 64, SIDES_MAX = 16 };
#define PASS_NS UINT64_C(100000000) /* least duration of a measurement */

enum { SIDE, PIXEL_BYTES, PER_S, P50, P50_WITHOUT, COLUMNS };
static const char *const columns[] = {"side", "pixel_bytes", "images_per_s", "p50_ms",
				      "p50_ms_without_codec"};

/* Returns the longest side of the loaded items. */
static uint32_t longest_side(const struct images_list *list, unsigned end)
{
	uint32_t most = 0;

	for (unsigned i = 0; i < end; i++)
		if (list->item[i].rgb)
			most = lend_max_u32(most, lend_max_u32(list->item[i].size.width,
							       list->item[i].size.height));
	return most;
}

/* Sends every image, one at a time or window at a time, until the time is over. Returns images per
 * second. */
static double run_passes(struct images_client *client, struct images_list *list, unsigned end,
			 unsigned window)
{
	uint64_t before = client->ended;
	lend_ns took = 0;

	while (took < PASS_NS && !client->failed)
		took += images_client_pass(client, list->item, 0, end, window);
	return took ? (double)(client->ended - before) * 1e9 / (double)took : 0;
}

static void measure_side(struct images_client *client, struct images_list *list, unsigned end,
			 unsigned window, double cell[COLUMNS])
{
	uint64_t bytes = 0, images = 0;

	for (unsigned i = 0; i < end; i++) {
		images += list->item[i].rgb != NULL;
		bytes += list->item[i].rgb ? images_size_bytes(list->item[i].size) : 0;
	}
	lend_hist_init(&client->with_ns);
	lend_hist_init(&client->without_ns);
	client->timed = true;
	(void)run_passes(client, list, end, 1);
	client->timed = false;
	cell[PIXEL_BYTES] = images ? (double)(bytes / images) : 0;
	cell[PER_S] = run_passes(client, list, end, window);
	cell[P50] = (double)lend_hist_quantile(&client->with_ns, 0.5) / 1e6;
	cell[P50_WITHOUT] = (double)lend_hist_quantile(&client->without_ns, 0.5) / 1e6;
}

void images_sweep(struct images_client *client, struct images_list *list, unsigned end,
		  unsigned window, struct app_report *report)
{
	double cell[SIDES_MAX][COLUMNS];
	uint32_t side[SIDES_MAX], most = longest_side(list, end);
	lend_ns began = app_now();
	unsigned rows = 0;

	for (uint32_t at = SIDE_MIN; at < most; at *= 2)
		side[rows++] = at;
	side[rows++] = most;
	/* From the largest side down: a smaller crop is a part of the last one. */
	for (unsigned row = rows; row-- > 0 && !client->failed;) {
		for (unsigned i = 0; i < end; i++)
			images_list_crop(list, i, side[row]);
		cell[row][SIDE] = side[row];
		measure_side(client, list, end, window, cell[row]);
		app_progress(began, rows - row, rows);
	}
	if (client->failed)
		return;
	app_report_table(report, &(struct app_table){"sizes", columns, COLUMNS, rows, cell[0]});
}
