/* config_file - a YAML file with the options of the command line, one per line.
 * Layer: mn. Threads: the main one. */
#ifndef MN_CONFIG_FILE_H
#define MN_CONFIG_FILE_H

#include <argp.h>
#include <stdint.h>

/* Tells apply() each option that stands in the file, by its place in options (which end with a zero
 * entry), its value ("" for one without) and its line; those named in skip are left out. Dies with
 * one line on standard error where the file makes no sense. Values live to the end. */
void mn_config_file(const char *path, const struct argp_option *options, const char *skip,
		    void (*apply)(uint32_t option, char *value, unsigned line, void *arg),
		    void *arg);

#endif
