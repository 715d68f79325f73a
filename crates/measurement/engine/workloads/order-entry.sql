-- orders of a wholesaler's warehouses: new orders, payments, deliveries and questions, five transactions
-- over nine tables, their keys skewed
-- @reason What many applications do: short transactions of several statements, some rows that all want, foreign
--   keys followed by index, a growing order history. The tables, their contents, the five transactions, the mix and
--   the skew are modelled on the TPC-C specification (revision 5.11); the figures are not comparable with results of
--   that benchmark, which this is not.
-- @writes
-- @without-pgbench-tables
-- @tables order-entry
-- @tries 10
-- @pause new-order 18000 12000
-- @pause payment 3000 12000
-- @pause order-status 2000 10000
-- @pause delivery 2000 5000
-- @pause stock-level 2000 5000
-- @condition 1: SELECT NOT EXISTS (SELECT FROM warehouse
--   JOIN (SELECT d_w_id, sum(d_ytd) AS taken FROM district GROUP BY d_w_id) d ON d_w_id = w_id WHERE w_ytd <> taken)
-- @condition 2: SELECT NOT EXISTS (SELECT FROM district
--   LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS last FROM orders GROUP BY o_w_id, o_d_id) o
--   ON o_w_id = d_w_id AND o_d_id = d_id
--   LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS last FROM new_order GROUP BY no_w_id, no_d_id) n
--   ON no_w_id = d_w_id AND no_d_id = d_id
--   WHERE d_next_o_id - 1 IS DISTINCT FROM o.last OR n.last <> o.last)
-- @condition 3: SELECT NOT EXISTS (SELECT FROM new_order GROUP BY no_w_id, no_d_id
--   HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*))
-- @condition 4: SELECT NOT EXISTS (SELECT FROM
--   (SELECT o_w_id AS w, o_d_id AS d, sum(o_ol_cnt) AS lines FROM orders GROUP BY o_w_id, o_d_id) o
--   FULL JOIN (SELECT ol_w_id AS w, ol_d_id AS d, count(*) AS lines FROM order_line GROUP BY ol_w_id, ol_d_id) l
--   USING (w, d) WHERE o.lines IS DISTINCT FROM l.lines)
-- @script new-order 45
\set w_id random(1, :scale)
\set d_id random(1, 10)
\set c_id ((random(0, 1023) | random(1, 3000)) + 259) % 3000 + 1
\set lines random(5, 15)
\set unused random(1, 100) = 1
\set i1 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set s1 case when :scale = 1 or random(1, 100) > 1 then :w_id else (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 end
\set q1 random(1, 10)
\set i2 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set s2 case when :scale = 1 or random(1, 100) > 1 then :w_id else (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 end
\set q2 random(1, 10)
\set i3 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set s3 case when :scale = 1 or random(1, 100) > 1 then :w_id else (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 end
\set q3 random(1, 10)
\set i4 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set s4 case when :scale = 1 or random(1, 100) > 1 then :w_id else (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 end
\set q4 random(1, 10)
\set i5 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set s5 case when :scale = 1 or random(1, 100) > 1 then :w_id else (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 end
\set q5 random(1, 10)
\set i6 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set s6 case when :scale = 1 or random(1, 100) > 1 then :w_id else (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 end
\set q6 random(1, 10)
\set i7 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set s7 case when :scale = 1 or random(1, 100) > 1 then :w_id else (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 end
\set q7 random(1, 10)
\set i8 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set s8 case when :scale = 1 or random(1, 100) > 1 then :w_id else (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 end
\set q8 random(1, 10)
\set i9 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set s9 case when :scale = 1 or random(1, 100) > 1 then :w_id else (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 end
\set q9 random(1, 10)
\set i10 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set s10 case when :scale = 1 or random(1, 100) > 1 then :w_id else (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 end
\set q10 random(1, 10)
\set i11 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set s11 case when :scale = 1 or random(1, 100) > 1 then :w_id else (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 end
\set q11 random(1, 10)
\set i12 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set s12 case when :scale = 1 or random(1, 100) > 1 then :w_id else (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 end
\set q12 random(1, 10)
\set i13 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set s13 case when :scale = 1 or random(1, 100) > 1 then :w_id else (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 end
\set q13 random(1, 10)
\set i14 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set s14 case when :scale = 1 or random(1, 100) > 1 then :w_id else (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 end
\set q14 random(1, 10)
\set i15 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set s15 case when :scale = 1 or random(1, 100) > 1 then :w_id else (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 end
\set q15 random(1, 10)
\if :unused
\if :lines = 5
\set i5 100001
\elif :lines = 6
\set i6 100001
\elif :lines = 7
\set i7 100001
\elif :lines = 8
\set i8 100001
\elif :lines = 9
\set i9 100001
\elif :lines = 10
\set i10 100001
\elif :lines = 11
\set i11 100001
\elif :lines = 12
\set i12 100001
\elif :lines = 13
\set i13 100001
\elif :lines = 14
\set i14 100001
\elif :lines = 15
\set i15 100001
\endif
\endif
\set all_local case when (:s1 = :w_id) and (:s2 = :w_id) and (:s3 = :w_id) \
  and (:s4 = :w_id) and (:s5 = :w_id) and (:s6 = :w_id or :lines < 6) \
  and (:s7 = :w_id or :lines < 7) and (:s8 = :w_id or :lines < 8) and (:s9 = :w_id or :lines < 9) \
  and (:s10 = :w_id or :lines < 10) and (:s11 = :w_id or :lines < 11) and (:s12 = :w_id or :lines < 12) \
  and (:s13 = :w_id or :lines < 13) and (:s14 = :w_id or :lines < 14) and (:s15 = :w_id or :lines < 15) \
  then 1 else 0 end
BEGIN;
SELECT c_discount, c_last, c_credit, w_tax FROM warehouse JOIN customer ON c_w_id = w_id
  WHERE w_id = :w_id AND c_d_id = :d_id AND c_id = :c_id;
UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = :w_id AND d_id = :d_id
  RETURNING d_next_o_id - 1 AS o_id, d_tax \gset
INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
  VALUES (:o_id, :d_id, :w_id, :c_id, now(), :lines, :all_local);
INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (:o_id, :d_id, :w_id);
SELECT i_price, i_name, i_data, count(*) OVER () AS found
  FROM unnest((ARRAY[:i1, :i2, :i3, :i4, :i5, :i6, :i7, :i8, :i9, :i10, :i11, :i12, :i13, :i14, :i15]::int[])[1 : :lines]) AS wanted
  JOIN item ON i_id = wanted \aset
\if :found < :lines
ROLLBACK;
\else
WITH line AS (SELECT * FROM unnest((ARRAY[:i1, :i2, :i3, :i4, :i5, :i6, :i7, :i8, :i9, :i10, :i11, :i12, :i13, :i14, :i15]::int[])[1 : :lines],
  (ARRAY[:s1, :s2, :s3, :s4, :s5, :s6, :s7, :s8, :s9, :s10, :s11, :s12, :s13, :s14, :s15]::int[])[1 : :lines],
  (ARRAY[:q1, :q2, :q3, :q4, :q5, :q6, :q7, :q8, :q9, :q10, :q11, :q12, :q13, :q14, :q15]::int[])[1 : :lines])
  WITH ORDINALITY AS l(i_id, w_id, quantity, number)),
taken AS (UPDATE stock SET s_quantity = s_quantity - wanted + CASE WHEN s_quantity >= wanted + 10 THEN 0 ELSE 91 END,
  s_ytd = s_ytd + wanted, s_order_cnt = s_order_cnt + times,
  s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = :w_id THEN 0 ELSE times END
  FROM (SELECT i_id, w_id, sum(quantity)::int AS wanted, count(*)::int AS times FROM line
    GROUP BY w_id, i_id ORDER BY w_id, i_id) AS asked
  WHERE s_w_id = asked.w_id AND s_i_id = asked.i_id
  RETURNING s_i_id, s_w_id, s_quantity, s_data, CASE :d_id::int WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02
    WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04 WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07
    WHEN 8 THEN s_dist_08 WHEN 9 THEN s_dist_09 ELSE s_dist_10 END AS dist_info)
INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info)
  SELECT :o_id, :d_id, :w_id, number, line.i_id, line.w_id, quantity, quantity * i_price, dist_info
  FROM line JOIN taken ON s_w_id = line.w_id AND s_i_id = line.i_id JOIN item ON item.i_id = line.i_id
  RETURNING ol_number, ol_amount;
COMMIT;
\endif
-- @script payment 43
\set w_id random(1, :scale)
\set d_id random(1, 10)
\set elsewhere :scale > 1 and random(1, 100) > 85
\set c_w_id case when :elsewhere then (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 else :w_id end
\set c_d_id case when :elsewhere then random(1, 10) else :d_id end
\set amount random(100, 500000) / 100.0
\set by_name random(1, 100) <= 60
\set name ((random(0, 255) | random(0, 999)) + 208) % 1000
\set c_id ((random(0, 1023) | random(1, 3000)) + 259) % 3000 + 1
BEGIN;
UPDATE warehouse SET w_ytd = w_ytd + :amount WHERE w_id = :w_id
  RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip;
UPDATE district SET d_ytd = d_ytd + :amount WHERE d_w_id = :w_id AND d_id = :d_id
  RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip;
\if :by_name
SELECT c_id FROM (SELECT c_id, row_number() OVER (ORDER BY c_first) AS place, count(*) OVER () AS many
  FROM customer WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_last =
  (ARRAY['BAR','OUGHT','ABLE','PRI','PRES','ESE','ANTI','CALLY','ATION','EING'])[:name / 100 + 1] ||
  (ARRAY['BAR','OUGHT','ABLE','PRI','PRES','ESE','ANTI','CALLY','ATION','EING'])[:name / 10 % 10 + 1] ||
  (ARRAY['BAR','OUGHT','ABLE','PRI','PRES','ESE','ANTI','CALLY','ATION','EING'])[:name % 10 + 1]) AS named
  WHERE place = (many + 1) / 2 \gset
\endif
UPDATE customer SET c_balance = c_balance - :amount, c_ytd_payment = c_ytd_payment + :amount,
  c_payment_cnt = c_payment_cnt + 1, c_data = CASE c_credit WHEN 'BC' THEN
  left(concat_ws(' ', c_id, c_d_id, c_w_id, :d_id::int, :w_id::int, :amount::numeric(6,2), c_data), 500) ELSE c_data END
  WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id
  RETURNING c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit,
  c_credit_lim, c_discount, c_balance, CASE c_credit WHEN 'BC' THEN left(c_data, 200) END;
INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
  SELECT :c_id, :c_d_id, :c_w_id, d_id, w_id, now(), :amount, w_name || '    ' || d_name
  FROM warehouse JOIN district ON d_w_id = w_id WHERE w_id = :w_id AND d_id = :d_id;
COMMIT;
-- @script order-status 4
\set c_w_id random(1, :scale)
\set c_d_id random(1, 10)
\set by_name random(1, 100) <= 60
\set name ((random(0, 255) | random(0, 999)) + 208) % 1000
\set c_id ((random(0, 1023) | random(1, 3000)) + 259) % 3000 + 1
BEGIN;
\if :by_name
SELECT c_id FROM (SELECT c_id, row_number() OVER (ORDER BY c_first) AS place, count(*) OVER () AS many
  FROM customer WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_last =
  (ARRAY['BAR','OUGHT','ABLE','PRI','PRES','ESE','ANTI','CALLY','ATION','EING'])[:name / 100 + 1] ||
  (ARRAY['BAR','OUGHT','ABLE','PRI','PRES','ESE','ANTI','CALLY','ATION','EING'])[:name / 10 % 10 + 1] ||
  (ARRAY['BAR','OUGHT','ABLE','PRI','PRES','ESE','ANTI','CALLY','ATION','EING'])[:name % 10 + 1]) AS named
  WHERE place = (many + 1) / 2 \gset
\endif
SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id;
SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = :c_w_id AND o_d_id = :c_d_id AND o_c_id = :c_id
  ORDER BY o_id DESC LIMIT 1 \gset
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
  WHERE ol_w_id = :c_w_id AND ol_d_id = :c_d_id AND ol_o_id = :o_id;
COMMIT;
-- @script delivery 4
\set w_id random(1, :scale)
\set carrier random(1, 10)
WITH oldest AS (DELETE FROM new_order USING (SELECT d, (SELECT min(no_o_id) FROM new_order
    WHERE no_w_id = :w_id AND no_d_id = d) AS o FROM generate_series(1, 10) AS d) AS first
  WHERE no_w_id = :w_id AND no_d_id = d AND no_o_id = o RETURNING no_d_id, no_o_id),
sent AS (UPDATE orders SET o_carrier_id = :carrier FROM oldest
  WHERE o_w_id = :w_id AND o_d_id = no_d_id AND o_id = no_o_id RETURNING o_d_id, o_c_id),
dated AS (UPDATE order_line SET ol_delivery_d = now() FROM oldest
  WHERE ol_w_id = :w_id AND ol_d_id = no_d_id AND ol_o_id = no_o_id RETURNING ol_d_id, ol_amount)
UPDATE customer SET c_balance = c_balance + total, c_delivery_cnt = c_delivery_cnt + 1
  FROM sent JOIN (SELECT ol_d_id, sum(ol_amount) AS total FROM dated GROUP BY ol_d_id) AS sums ON ol_d_id = o_d_id
  WHERE c_w_id = :w_id AND c_d_id = o_d_id AND c_id = o_c_id;
-- @script stock-level 4
\set w_id random(1, :scale)
\set d_id random(1, 10)
\set threshold random(10, 20)
BEGIN;
SELECT d_next_o_id AS next FROM district WHERE d_w_id = :w_id AND d_id = :d_id \gset
SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
  WHERE ol_w_id = :w_id AND ol_d_id = :d_id AND ol_o_id >= :next - 20 AND ol_o_id < :next AND s_quantity < :threshold;
COMMIT;
