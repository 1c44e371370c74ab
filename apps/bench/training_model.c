/* training_model - see training_model.h. */
#include "apps/bench/training_model.h"

#include <errno.h>
#include <string.h>

#include "lend/rpc.h"
#include "util/bits.h"
#include "util/check.h"

const char *const training_kind_names[] = {"resnet50", "vit-b16", "gpt2", NULL};

static void add_layer(struct training_model *m, uint64_t parameters, double work)
{
	LEND_CHECK(m->layers < TRAINING_LAYERS_MAX);
	m->layer[m->layers++] =
	    (struct training_layer){.parameters = (uint32_t)parameters, .work = work};
	m->work += work;
}

/* A convolution without bias, and the scale and shift of its batch normalization. */
static void add_convolution(struct training_model *m, unsigned in, unsigned out, unsigned side,
			    unsigned kernel)
{
	uint64_t weights = (uint64_t)in * out * kernel * kernel;

	add_layer(m, weights + 2 * (uint64_t)out, (double)weights * side * side);
}

/* He et al., Deep Residual Learning (CVPR 2016), table 1, with the stride in the 3x3 convolutions
 * as in torchvision: 25,557,032 parameters. */
static void make_resnet50(struct training_model *m)
{
	static const unsigned blocks[] = {3, 4, 6, 3};
	unsigned in = 64, side = 56;

	add_convolution(m, 3, 64, 112, 7);
	for (unsigned stage = 0; stage < 4; stage++)
		for (unsigned block = 0; block < blocks[stage]; block++) {
			unsigned width = 64u << stage, before = side;

			if (stage && !block)
				side /= 2;
			add_convolution(m, in, width, before, 1);
			add_convolution(m, width, width, side, 3);
			add_convolution(m, width, 4 * width, side, 1);
			if (!block)
				add_convolution(m, in, 4 * width, side, 1);
			in = 4 * width;
		}
	add_layer(m, UINT64_C(2048) * 1000 + 1000, 2048 * 1000);
}

/* Matrix, bias, and norm normalizations of the layer's input, each a scale and a shift. */
static void add_matrix(struct training_model *m, uint64_t in, uint64_t out, unsigned norm)
{
	add_layer(m, in * out + out + norm * 2 * in, (double)(in * out));
}

/* The twelve blocks that both base models share: width 768, four times as wide between. */
static void add_blocks(struct training_model *m)
{
	enum { BLOCKS = 12, WIDTH = 768 };

	for (unsigned i = 0; i < BLOCKS; i++) {
		add_matrix(m, WIDTH, UINT64_C(3) * WIDTH, 1);
		add_matrix(m, WIDTH, WIDTH, 0);
		add_matrix(m, WIDTH, UINT64_C(4) * WIDTH, 1);
		add_matrix(m, UINT64_C(4) * WIDTH, WIDTH, 0);
	}
}

/* Dosovitskiy et al., An Image is Worth 16x16 Words (ICLR 2021), ViT-Base for patches of 16 x 16
 * of 224 x 224 pixels: 86,567,656 parameters. The first layer has the class token and the 197
 * positions. */
static void make_vit(struct training_model *m)
{
	add_layer(m, UINT64_C(3) * 16 * 16 * 768 + 768 + 768 + UINT64_C(197) * 768,
		  3 * 16 * 16 * 768);
	add_blocks(m);
	add_matrix(m, 768, 1000, 1);
}

/* Radford et al., Language Models are Unsupervised Multitask Learners (2019), the smallest model:
 * 124,439,808 parameters. The last layer multiplies by the embedding of 50,257 words again. */
static void make_gpt2(struct training_model *m)
{
	add_layer(m, (UINT64_C(50257) + 1024) * 768, 0);
	add_blocks(m);
	add_layer(m, UINT64_C(2) * 768, 50257.0 * 768);
}

static void add_slices(struct training_model *m, unsigned layer, uint64_t bytes, uint32_t slice)
{
	for (uint64_t at = 0; at < bytes; at += slice) {
		struct training_slice *s = &m->slice[m->slices++];

		s->at = m->bytes + at;
		s->len = (uint32_t)lend_min_u64(slice, bytes - at);
		s->layer = (uint16_t)layer;
	}
	m->bytes += bytes;
}

int training_model_make(struct training_model *m, enum training_kind kind, unsigned scale,
			uint32_t slice)
{
	static void (*const make[])(struct training_model *) = {make_resnet50, make_vit, make_gpt2};

	LEND_CHECK(scale && slice && slice % TRAINING_WORD == 0);
	memset(m, 0, sizeof(*m));
	make[kind](m);
	for (unsigned i = 0; i < m->layers; i++) {
		struct training_layer *layer = &m->layer[i];
		uint64_t bytes;

		layer->parameters = (layer->parameters + scale - 1) / scale;
		bytes = (uint64_t)layer->parameters * TRAINING_WORD;
		if ((bytes + slice - 1) / slice > TRAINING_SLICES_MAX - m->slices)
			return -ENOSPC;
		layer->first = m->slices;
		add_slices(m, i, bytes, slice);
		layer->after = m->slices;
	}
	for (unsigned i = 0; i < m->slices; i++) /* each priority gets an eighth of the bytes */
		m->slice[i].priority =
		    (uint8_t)(LEND_URGENT + m->slice[i].at * LEND_BULK / m->bytes);
	return 0;
}

/* Returns the slice to send next: of those that are ready at a time, the first one in order; else
 * the one that is ready first. */
static unsigned next_slice(const struct training_model *m, const double *ready, const bool *sent,
			   double at, bool fifo)
{
	unsigned best = m->slices;

	for (unsigned i = 0; i < m->slices; i++)
		if (!sent[i] &&
		    (best == m->slices || (ready[i] < ready[best] && (fifo || ready[best] > at))))
			best = i;
	return best;
}

/* Sends all slices over one direction of the link. ready: the time of each, which becomes that at
 * which its last byte has arrived. */
static void send_slices(const struct training_model *m, double byte, double *ready, bool fifo)
{
	static bool sent[TRAINING_SLICES_MAX];
	double at = 0;

	memset(sent, 0, sizeof(sent));
	for (unsigned n = 0; n < m->slices; n++) {
		unsigned i = next_slice(m, ready, sent, at, fifo);

		at = (ready[i] > at ? ready[i] : at) + byte * m->slice[i].len;
		ready[i] = at;
		sent[i] = true;
	}
}

double training_model_bound(const struct training_model *m, double compute, double forward,
			    double transfer, bool fifo)
{
	static double ready[TRAINING_SLICES_MAX];
	double at = 0;

	for (unsigned i = m->layers; i-- > 0;) {
		at += compute * (1 - forward) * m->layer[i].work / m->work;
		for (unsigned k = m->layer[i].first; k < m->layer[i].after; k++)
			ready[k] = at;
	}
	for (int way = 0; way < 2; way++)
		send_slices(m, transfer / (double)m->bytes, ready, fifo);
	for (unsigned i = 0; i < m->layers; i++) {
		for (unsigned k = m->layer[i].first; k < m->layer[i].after; k++)
			at = ready[k] > at ? ready[k] : at;
		at += compute * forward * m->layer[i].work / m->work;
	}
	return at;
}
