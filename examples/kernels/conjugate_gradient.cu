// What a conjugate-gradient solver does on the device. Every kernel is right for any grid of any blocks.

#ifndef KERNEL // a test has them compiled for the host
#define KERNEL extern "C" __global__ void
#endif
#define FIRST ((unsigned long long)blockIdx.x * blockDim.x + threadIdx.x)
#define STRIDE ((unsigned long long)gridDim.x * blockDim.x)

// y = A x for the five-point Laplacian on side * side points, zero outside.
KERNEL apply(double *y, const double *x, unsigned long long side) {
  for (unsigned long long at = FIRST; at < side * side; at += STRIDE) {
    unsigned long long row = at / side, column = at % side;
    double sum = 4.0 * x[at];
    if (row > 0) sum -= x[at - side];
    if (row + 1 < side) sum -= x[at + side];
    if (column > 0) sum -= x[at - 1];
    if (column + 1 < side) sum -= x[at + 1];
    y[at] = sum;
  }
}

// y = alpha x + beta y.
KERNEL axpby(double *y, double alpha, const double *x, double beta, unsigned long long n) {
  for (unsigned long long at = FIRST; at < n; at += STRIDE) y[at] = alpha * x[at] + beta * y[at];
}

// parts[t] becomes the part of x . y that thread t sees; there is one for each thread.
KERNEL products(double *parts, const double *x, const double *y, unsigned long long n) {
  double sum = 0.0;
  for (unsigned long long at = FIRST; at < n; at += STRIDE) sum += x[at] * y[at];
  parts[FIRST] = sum;
}

// parts[t] becomes the sum of the parts that thread t sees, which no other thread touches. The order is
// always the same, and so is every bit of the sum.
KERNEL fold(double *parts, unsigned long long n) {
  double sum = 0.0;
  for (unsigned long long at = FIRST; at < n; at += STRIDE) sum += parts[at];
  parts[FIRST] = sum;
}
