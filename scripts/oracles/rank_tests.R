# Oracle values for the rank statistics, by R's own implementation.
#
#   Rscript scripts/oracles/rank_tests.R > crates/results/stats/src/oracles/rank_tests.tsv
#
# One row a case: what, the values (two samples for Mann-Whitney, "/" between),
# p, estimate, and the intervals at 95 and 90 %. wilcox.test computes them exactly
# here (exact = TRUE, no ties).
suppressWarnings(RNGversion("4.0.0"))
set.seed(20261121)
cat("# R", as.character(getRversion()), "wilcox.test, p.adjust; written by scripts/oracles/rank_tests.R\n")
num <- function(v) paste(formatC(v, digits = 17, format = "g", width = 1), collapse = " ")
raw <- function(v) paste(v, collapse = " ")
row <- function(what, values, p, estimate, ci95, ci90)
  cat(what, values, num(p), num(estimate), num(ci95[1]), num(ci95[2]), num(ci90[1]), num(ci90[2]), sep = "\t", fill = FALSE, "\n")
one <- function(x) {
  a <- wilcox.test(x, exact = TRUE, conf.int = TRUE, conf.level = 0.95)
  b <- wilcox.test(x, exact = TRUE, conf.int = TRUE, conf.level = 0.90)
  row("signed-rank", raw(x), a$p.value, median_walsh(x), a$conf.int, b$conf.int)
}
# R's own $estimate is the median of the Walsh averages in the exact case; formed
# here once more so that it is plain what is compared
median_walsh <- function(x) { w <- outer(x, x, "+") / 2; median(w[lower.tri(w, diag = TRUE)]) }
for (n in c(6, 7, 8, 10, 12, 15, 16, 17, 20, 25, 31, 40, 49)) {
  one(round(rnorm(n, 0.01, 0.03), 6))
  one(round(rt(n, 2) * 0.02 + 0.015, 6))
}
two <- function(x, y) {
  a <- wilcox.test(y, x, exact = TRUE, conf.int = TRUE, conf.level = 0.95)
  b <- wilcox.test(y, x, exact = TRUE, conf.int = TRUE, conf.level = 0.90)
  row("mann-whitney", paste(raw(x), "/", raw(y)), a$p.value, unname(a$estimate), a$conf.int, b$conf.int)
}
for (nm in list(c(4, 4), c(6, 6), c(6, 9), c(10, 7), c(12, 12), c(20, 15), c(30, 30), c(45, 20))) {
  two(round(rnorm(nm[1], 0, 0.03), 6), round(rnorm(nm[2], 0.02, 0.05), 6))
}
# Holm: raw p-values and adjusted ones
for (k in c(1, 2, 4, 7)) {
  p <- round(sort(runif(k) ^ 3), 6)[sample(k)]
  cat("holm", raw(p), num(p.adjust(p, "holm")), "\n", sep = "\t")
}
cat("holm", num(c(0.01, 0.02, 0.03, 0.04)), num(p.adjust(c(0.01, 0.02, 0.03, 0.04), "holm")), "\n", sep = "\t")
