// Two symmetric matrices and what one thread does with them, along rows of neighbouring numbers.
//
// a is whole. b(i, j), i >= j, lies in row j of an upper triangle, with a right-hand side as column m; the factorization
// carries that along. After `sweep` b is whole too.
struct Matrices {
    int m, ld;
    double *A, *U;
    METHOD double* place(double* memory) {
        ld = (m + 4) / 4 * 4;
        A = memory, U = A + m * ld;
        return U + m * ld;
    }
    METHOD double& b(int i, int j) const { return U[j * ld + i]; }
};

DEVICE double times_a(const Matrices& M, const double* v, int i) { return dot(M.A + i * M.ld, v, M.m); }

// After `sweep`.
DEVICE double times_b(const Matrices& M, const double* v, int i) { return dot(M.U + i * M.ld, v, M.m); }

// B = I + root A root in b.
DEVICE void build(const Matrices& M, const double* root) {
    for (int j = 0; j < M.m; j++) {
        const double* from = M.A + j * M.ld;
        double *to = M.U + j * M.ld, own = root[j];
        VECTORS for (int i = j; i < M.m; i++) to[i] = own * from[i] * root[i];
        to[j] += 1.0;
    }
}

// The Cholesky factor of b in place, its column m solved along; 1/diagonal goes to `inverse` (m). Four rows at a time: each
// is freed of the ones above it among the four, then all below of the four at once.
DEVICE void factor(const Matrices& M, double* inverse) {
    const int m = M.m, ld = M.ld;
    for (int k = 0; k < m; k += 4) {
        const int end = k + 4 < m ? k + 4 : m;
        for (int r = k; r < end; r++) {
            double* row = M.U + r * ld;
            for (int q = k; q < r; q++) add_one(row + r, -M.U[q * ld + r], M.U + q * ld + r, m + 1 - r);
            const double scale = inverse[r] = 1.0 / sqrt(row[r]);
            VECTORS for (int i = r; i <= m; i++) row[i] *= scale;
        }
        const double *first = M.U + k * ld, *second = first + ld, *third = second + ld, *fourth = third + ld;
        int r = end;
        // Two rows at a time; the second's entry below its diagonal is not read again.
        for (; r + 1 < m; r += 2) {
            const double c[4] = {-first[r], -second[r], -third[r], -fourth[r]};
            const double e[4] = {-first[r + 1], -second[r + 1], -third[r + 1], -fourth[r + 1]};
            double* row = M.U + r * ld + r;
            add_four_twice(row, row + ld, c, e, first + r, second + r, third + r, fourth + r, m + 1 - r);
        }
        if (r < m) {
            const double c[4] = {-first[r], -second[r], -third[r], -fourth[r]};
            add_four(M.U + r * ld + r, c, first + r, second + r, third + r, fourth + r, m + 1 - r);
        }
    }
}

// x with L' x = column m of b, after `factor`.
DEVICE void back_substitute(const Matrices& M, const double* inverse, double* x) {
    for (int i = M.m - 1; i >= 0; i--) {
        const double* row = M.U + i * M.ld;
        x[i] = (row[M.m] - dot(row + i + 1, x + i + 1, M.m - 1 - i)) * inverse[i];
    }
}

// rows[i][0 .. i] of the inverse of L, whose columns are the rows of U.
DEVICE void invert(const Matrices& M, const double* inverse, double* rows, int ld) {
    for (int i = 0; i < M.m; i++) {
        double* row = rows + i * ld;
        for (int j = 0; j < i; j++) row[j] = 0.0;
        int k = 0;
        for (; k + 3 < i; k += 4) {
            const double* from = M.U + k * M.ld + i;
            const double c[4] = {-from[0], -from[M.ld], -from[2 * M.ld], -from[3 * M.ld]};
            const double* x = rows + k * ld;
            // Rows are zero beyond their diagonal.
            add_four(row, c, x, x + ld, x + 2 * ld, x + 3 * ld, k + 4);
        }
        for (; k < i; k++) add_one(row, -M.U[k * M.ld + i], rows + k * ld, k + 1);
        for (int j = 0; j < i; j++) row[j] *= inverse[i];
        row[i] = inverse[i];
        for (int j = i + 1; j < M.m; j++) row[j] = 0.0;
    }
}

// b becomes minus its inverse, whole; `pivots` (m) multiply to its determinant; `spare` holds m + m ld numbers.
DEVICE void sweep(const Matrices& M, double* pivots, double* spare) {
    const int m = M.m, ld = M.ld;
    double *inverse = spare, *rows = spare + m;
    for (int j = 0; j < m; j++) M.b(m, j) = 0.0;
    factor(M, inverse);
    for (int j = 0; j < m; j++) pivots[j] = M.b(j, j) * M.b(j, j);
    invert(M, inverse, rows, ld);
    for (int i = 0; i < m; i++) {
        double* row = M.U + i * ld;
        for (int j = 0; j <= i; j++) row[j] = 0.0;
        int k = i;
        for (; k + 3 < m; k += 4) {
            const double* from = rows + k * ld;
            const double c[4] = {-from[i], -from[ld + i], -from[2 * ld + i], -from[3 * ld + i]};
            add_four(row, c, from, from + ld, from + 2 * ld, from + 3 * ld, i + 1);
        }
        for (; k < m; k++) add_one(row, -rows[k * ld + i], rows + k * ld, i + 1);
    }
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < i; j++) M.U[j * ld + i] = M.U[i * ld + j];
    }
}
