/* A model fitted by skinnytrees, as C99 that needs only the standard library. Compile with
 *     cc -O2 -shared -fPIC -o model.so model.c -lm
 * or add this file to a program and declare skinnytrees_predict in it. The function keeps no state.
 *
 * Inputs, in this order:
@INPUTS@
 */
#include <math.h>
#include <string.h>

struct input {
    int is_text, has_value, has_missing_column;
    double mean, scale, farthest;
    int first_knot, n_knots, first_height, n_curves, first_level, n_levels;
};

@TABLES@

/* Height at x of the piecewise-linear curve through the points, constant beyond the first and the last one. */
static double height_at(double x, const double *knot, const double *height, int n)
{
    int low = 0, high = n - 1;
    if (x <= knot[low]) return height[low];
    if (x >= knot[high]) return height[high];
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (knot[middle] <= x) low = middle; else high = middle;
    }
    return height[low] + (x - knot[low]) / (knot[high] - knot[low]) * (height[high] - height[low]);
}

/* Design columns of one input; returns where the next one's begin. */
static double *encode(const struct input *in, double x, const char *text, double *column)
{
    int missing = in->is_text ? text == 0 : isnan(x);
    if (in->has_value) {
        double scaled = missing ? 0 : (x - in->mean) / in->scale;
        *column++ = scaled > in->farthest ? in->farthest : scaled < -in->farthest ? -in->farthest : scaled;
    }
    if (in->has_missing_column) *column++ = missing;
    for (int c = 0; c < in->n_curves; c++) {
        const double *height = heights + in->first_height + c * in->n_knots;
        *column++ = missing ? 0 : height_at(x, knots + in->first_knot, height, in->n_knots);
    }
    for (int l = in->first_level; l < in->first_level + in->n_levels; l++) {
        if (in->is_text)
            *column++ = level_texts[l] == 0 ? missing : !missing && strcmp(text, level_texts[l]) == 0;
        else
            *column++ = isnan(level_numbers[l]) ? missing : fabs(x - level_numbers[l]) <= level_tolerances[l];
    }
    return column;
}

/* Fraction of a row that goes left at a split of score z. */
static double routing(double z)
{
    double t = z / theta;
    if (IS_SIGMOID) return 1 / (1 + exp(-t));
    t = t > 1 ? 1 : t < -1 ? -1 : t;
    return 0.5 + 0.25 * t * (3 - t * t);
}

/* Add one tree's outputs. Level after level, all left children come before all right ones. */
static void add_tree(const float *w, const float *bias, const float *leaf, const double *design, double *out)
{
    double score[N_NODES], reach[2 * N_NODES + 1];
    for (int i = 0; i < N_NODES; i++) score[i] = bias[i];
    for (int k = 0; k < N_COLUMNS; k++, w += N_NODES)
        if (design[k] != 0)
            for (int i = 0; i < N_NODES; i++) score[i] += design[k] * w[i];
    reach[0] = 1;
    for (int at = 0, width = 1; at < N_NODES; at += width, width *= 2)
        for (int i = at; i < at + width; i++) {
            reach[i + width] = reach[i] * routing(score[i]);
            reach[i + 2 * width] = reach[i] - reach[i + width];
        }
    for (int c = 0; c < N_OUTPUTS; c++, leaf += N_NODES + 1)
        for (int i = 0; i <= N_NODES; i++) out[c] += reach[N_NODES + i] * leaf[i];
}

static void apply_link(double *out)
{
    double top = out[0], total = 0;
    if (IS_EXP)
        for (int c = 0; c < N_OUTPUTS; c++) out[c] = exp(out[c]);
    if (!IS_SOFTMAX) return;
    for (int c = 1; c < N_OUTPUTS; c++) top = out[c] > top ? out[c] : top;
    for (int c = 0; c < N_OUTPUTS; c++) total += out[c] = exp(out[c] - top);
    for (int c = 0; c < N_OUTPUTS; c++) out[c] /= total;
}

/* Names of the inputs and outputs, or 0 beyond the last one. */
const char *skinnytrees_input_name(int k) { return k >= 0 && k < N_INPUTS ? input_names[k] : 0; }
const char *skinnytrees_output_name(int c) { return c >= 0 && c < N_OUTPUTS ? output_names[c] : 0; }

/* Fill out (one number per output) for one row. numbers[k] is read where input k is a number (NAN: missing), texts[k] where it is
 * text in UTF-8 (0: missing); texts may be 0 where no input is text. Returns 0, or 1 where a number is infinite. */
int skinnytrees_predict(const double *numbers, const char *const *texts, double *out)
{
    double design[N_COLUMNS], *column = design;
    for (int k = 0; k < N_INPUTS; k++) {
        const struct input *in = inputs + k;
        if (!in->is_text && isinf(numbers[k])) return 1;
        column = encode(in, in->is_text ? 0 : numbers[k], in->is_text ? texts[k] : 0, column);
    }
    for (int c = 0; c < N_OUTPUTS; c++) out[c] = base[c];
    for (int t = 0; t < N_TREES; t++)
        add_tree(W + t * N_COLUMNS * N_NODES, b + t * N_NODES, O + t * N_OUTPUTS * (N_NODES + 1), design, out);
    apply_link(out);
    return 0;
}
