#include "apps/common/samples.h"

#include <stdlib.h>
#include <string.h>

#include "util/check.h"

void app_series_add(struct app_series *series, double value)
{
	LEND_CHECK(series->n < APP_SERIES_MAX);
	series->at[series->n++] = value;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double app_median(const double *value, unsigned n)
{
	double sorted[APP_SERIES_MAX + 1] = {0};

	LEND_CHECK(n <= APP_SERIES_MAX);
	memcpy(sorted, value, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_size);
	return sorted[n / 2];
}

double app_series_median(const struct app_series *series)
{
	return app_median(series->at, series->n);
}

double app_series_ratio(const struct app_series *of, const struct app_series *to)
{
	struct app_series each = {.n = 0};

	for (unsigned i = 0; i < of->n && i < to->n; i++)
		app_series_add(&each, to->at[i] > 0 ? of->at[i] / to->at[i] : 0);
	return app_series_median(&each);
}
