/* samples - what equal slices of a measurement gave, and their middle: on a machine that others use
 * some slices tell how long the others took. Layer: apps. Any thread. By value in its owner. */
#ifndef APPS_COMMON_SAMPLES_H
#define APPS_COMMON_SAMPLES_H

enum { APP_SERIES_MAX = 512 };

struct app_series {
	double at[APP_SERIES_MAX];
	unsigned n;
};

/* One more; there is room. */
void app_series_add(struct app_series *series, double value);
/* The middle of n numbers, up to APP_SERIES_MAX, of an even number the upper; 0: there is none. */
double app_median(const double *value, unsigned n);
double app_series_median(const struct app_series *series);
/* Of two that were measured in turns: the median of what one is of the other. */
double app_series_ratio(const struct app_series *of, const struct app_series *to);

#endif
