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

// Rows of so many, and columns of so many, are worked on at a time: what they need stays near the processor.
constexpr int BLOCK_ROWS = 32, TILE = 128;

// Y (rows x width) -= S' X, where S(k, r) = S[k ld + r] and X are `count` rows long; all have rows of ld numbers.
DEVICE void subtract(double* Y, int rows, int width, const double* S, const double* X, int count, int ld) {
    for (int from = 0; from < width; from += TILE) {
        const int n = width - from < TILE ? width - from : TILE;
        double* y = Y + from;
        const double* x = X + from;
        int k = 0;
        for (; k + 3 < count; k += 4) {
            const double *s_0 = S + k * ld, *s_1 = s_0 + ld, *s_2 = s_1 + ld, *s_3 = s_2 + ld;
            int r = 0;
            for (; r + 1 < rows; r += 2) {
                const double c[4] = {-s_0[r], -s_1[r], -s_2[r], -s_3[r]};
                const double e[4] = {-s_0[r + 1], -s_1[r + 1], -s_2[r + 1], -s_3[r + 1]};
                add_four_twice(y + r * ld, y + (r + 1) * ld, c, e, x + k * ld, ld, n);
            }
            if (r < rows) {
                const double c[4] = {-s_0[r], -s_1[r], -s_2[r], -s_3[r]};
                add_four(y + r * ld, c, x + k * ld, ld, n);
            }
        }
        for (; k < count; k++) {
            for (int r = 0; r < rows; r++) add_one(y + r * ld, -S[k * ld + r], x + k * ld, n);
        }
    }
}

// The Cholesky factor of b in place, its column m solved along; 1/diagonal goes to `inverse` (m). Of a block's rows those
// above it are taken away at once, then four by four its own. What lies below the diagonal is written to, never read.
DEVICE void factor(const Matrices& M, double* inverse) {
    const int m = M.m, ld = M.ld;
    for (int block = 0; block < m; block += BLOCK_ROWS) {
        const int last = block + BLOCK_ROWS < m ? block + BLOCK_ROWS : m;
        double* U = M.U + block;
        subtract(U + block * ld, last - block, m + 1 - block, U, U, block, ld);
        for (int k = block; k < last; k += 4) {
            const int end = k + 4 < last ? k + 4 : last;
            for (int r = k; r < end; r++) {
                double* row = M.U + r * ld;
                for (int q = k; q < r; q++) add_one(row + r, -M.U[q * ld + r], M.U + q * ld + r, m + 1 - r);
                const double scale = inverse[r] = 1.0 / sqrt(row[r]);
                VECTORS for (int i = r; i <= m; i++) row[i] *= scale;
            }
            for (int r = end; r < last; r += 2) {
                const double* above = M.U + k * ld + r;
                subtract(M.U + r * ld + r, r + 1 < last ? 2 : 1, m + 1 - r, above, above, 4, ld);
            }
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

// The inverse of L, whose columns are the rows of U, to `rows`; beyond their diagonals these are zero.
DEVICE void invert(const Matrices& M, const double* inverse, double* rows) {
    const int m = M.m, ld = M.ld;
    std::fill(rows, rows + m * ld, 0.0);
    for (int block = 0; block < m; block += BLOCK_ROWS) {
        const int last = block + BLOCK_ROWS < m ? block + BLOCK_ROWS : m;
        subtract(rows + block * ld, last - block, block, M.U + block, rows, block, ld);
        for (int i = block; i < last; i++) {
            double* row = rows + i * ld;
            subtract(row, 1, i, M.U + block * ld + i, rows + block * ld, i - block, ld);
            VECTORS for (int j = 0; j < i; j++) row[j] *= inverse[i];
            row[i] = inverse[i];
        }
    }
}

// b becomes minus its inverse, whole; `pivots` (m) multiply to its determinant; `spare` holds m + m ld numbers.
DEVICE void sweep(const Matrices& M, double* pivots, double* spare) {
    const int m = M.m, ld = M.ld;
    double *inverse = spare, *rows = spare + m;
    for (int j = 0; j < m; j++) M.b(m, j) = 0.0;
    factor(M, inverse);
    for (int j = 0; j < m; j++) pivots[j] = M.b(j, j) * M.b(j, j);
    invert(M, inverse, rows);
    std::fill(M.U, M.U + m * ld, 0.0);
    for (int block = 0; block < m; block += BLOCK_ROWS) {
        const int last = block + BLOCK_ROWS < m ? block + BLOCK_ROWS : m;
        const double* below = rows + block * ld;
        subtract(M.U + block * ld, last - block, last, below + block, below, m - block, ld);
    }
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < i; j++) M.U[j * ld + i] = M.U[i * ld + j];
    }
}

// A takes the values of a whole symmetric matrix.
DEVICE void hold(const Matrices& M, const double* whole) {
    for (int i = 0; i < M.m; i++) std::copy(whole + i * M.m, whole + (i + 1) * M.m, M.A + i * M.ld);
}

DEVICE double entry_a(const Matrices& M, int i) { return M.A[i * M.ld + i]; }

// b = sign (A + diag r) + shift I as something to solve with. False where it is not positive definite. `inverse` holds m.
DEVICE bool prepare(const Matrices& M, double sign, const double* r, double shift, double* inverse, double*) {
    for (int j = 0; j < M.m; j++) {
        const double* from = M.A + j * M.ld;
        double* to = M.U + j * M.ld;
        VECTORS for (int i = j; i < M.m; i++) to[i] = sign * from[i];
        to[j] += sign * r[j] + shift, to[M.m] = 0.0;
    }
    factor(M, inverse);
    return std::all_of(inverse, inverse + M.m, [](double one) { return one > 0.0 && one < INFINITE; });
}

// x with b x = v, after `prepare`.
DEVICE void solve(const Matrices& M, const double* inverse, const double* v, double* x) {
    std::copy(v, v + M.m, x);
    for (int k = 0; k < M.m; k++) {
        x[k] *= inverse[k];
        add_one(x + k + 1, -x[k], M.U + k * M.ld + k + 1, M.m - 1 - k);
    }
    for (int i = M.m - 1; i >= 0; i--) {
        x[i] = (x[i] - dot(M.U + i * M.ld + i + 1, x + i + 1, M.m - 1 - i)) * inverse[i];
    }
}
