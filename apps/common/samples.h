/* samples - the results of equal time slices of a measurement, and their median. The median
 * excludes slices in which other processes used the CPU. Layer: apps. Any thread. By value in its
 * owner. */
#ifndef APPS_COMMON_SAMPLES_H
#define APPS_COMMON_SAMPLES_H

enum { APP_SERIES_MAX = 512 };

struct app_series {
	double at[APP_SERIES_MAX];
	unsigned n;
};

/* Adds a value; the series must have room. */
void app_series_add(struct app_series *series, double value);
/* Returns the median of n numbers, the upper one for even n; 0 if n is 0. n is at most
 * APP_SERIES_MAX. */
double app_median(const double *value, unsigned n);
double app_series_median(const struct app_series *series);
/* Returns the median of the ratios of->at[i] / to->at[i], for two series that were measured in
 * turns. */
double app_series_ratio(const struct app_series *of, const struct app_series *to);

#endif
