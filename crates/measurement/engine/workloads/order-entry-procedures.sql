-- order-entry with each transaction a procedure in the server, called by one statement
-- @reason The same work on the same tables without a round trip for each statement: held against order-entry, it shows
--   what the trips, the protocol and the waiting for clients cost, and what PL/pgSQL does. Modelled on the TPC-C
--   specification (revision 5.11) as order-entry is; the figures are not comparable with results of that benchmark.
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
-- @setup CREATE FUNCTION customer_named(w int, d int, name int) RETURNS int LANGUAGE sql STABLE AS $$
--   SELECT c_id FROM (SELECT c_id, row_number() OVER (ORDER BY c_first) AS place, count(*) OVER () AS many
--   FROM customer WHERE c_w_id = w AND c_d_id = d AND c_last =
--   (ARRAY['BAR','OUGHT','ABLE','PRI','PRES','ESE','ANTI','CALLY','ATION','EING'])[name / 100 + 1] ||
--   (ARRAY['BAR','OUGHT','ABLE','PRI','PRES','ESE','ANTI','CALLY','ATION','EING'])[name / 10 % 10 + 1] ||
--   (ARRAY['BAR','OUGHT','ABLE','PRI','PRES','ESE','ANTI','CALLY','ATION','EING'])[name % 10 + 1]) AS named
--   WHERE place = (many + 1) / 2 $$
-- @setup CREATE PROCEDURE new_order(w int, d int, c int, items int[], supplies int[], quantities int[],
--   INOUT order_id int, INOUT total numeric) LANGUAGE plpgsql AS $$
--   DECLARE discount numeric; tax numeric; district_tax numeric; known int; BEGIN
--   SELECT c_discount, w_tax INTO discount, tax FROM warehouse JOIN customer ON c_w_id = w_id
--     WHERE w_id = w AND c_d_id = d AND c_id = c;
--   UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = w AND d_id = d
--     RETURNING d_next_o_id - 1, d_tax INTO order_id, district_tax;
--   INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES (order_id, d, w, c, now(),
--     array_length(items, 1), CASE WHEN w = ALL (supplies) THEN 1 ELSE 0 END);
--   INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (order_id, d, w);
--   SELECT count(*) INTO known FROM unnest(items) AS wanted JOIN item ON i_id = wanted;
--   IF known < array_length(items, 1) THEN ROLLBACK; total := NULL; RETURN; END IF;
--   WITH line AS (SELECT * FROM unnest(items, supplies, quantities) WITH ORDINALITY AS l(i_id, w_id, quantity, number)),
--   taken AS (UPDATE stock SET s_quantity = s_quantity - wanted + CASE WHEN s_quantity >= wanted + 10 THEN 0 ELSE 91 END,
--     s_ytd = s_ytd + wanted, s_order_cnt = s_order_cnt + times,
--     s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = w THEN 0 ELSE times END
--     FROM (SELECT i_id, w_id, sum(quantity)::int AS wanted, count(*)::int AS times FROM line
--       GROUP BY w_id, i_id ORDER BY w_id, i_id) AS asked
--     WHERE s_w_id = asked.w_id AND s_i_id = asked.i_id
--     RETURNING s_i_id, s_w_id, CASE d WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03
--       WHEN 4 THEN s_dist_04 WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07
--       WHEN 8 THEN s_dist_08 WHEN 9 THEN s_dist_09 ELSE s_dist_10 END AS dist_info),
--   sold AS (INSERT INTO order_line
--     (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info)
--     SELECT order_id, d, w, number, line.i_id, line.w_id, quantity, quantity * i_price, dist_info
--     FROM line JOIN taken ON s_w_id = line.w_id AND s_i_id = line.i_id JOIN item ON item.i_id = line.i_id
--     RETURNING ol_amount)
--   SELECT sum(ol_amount) * (1 - discount) * (1 + tax + district_tax) INTO total FROM sold;
--   END $$
-- @setup CREATE PROCEDURE payment(w int, d int, c_w int, c_d int, amount numeric, INOUT customer_id int,
--   INOUT balance numeric) LANGUAGE plpgsql AS $$
--   DECLARE name_of_w text; name_of_d text; BEGIN
--   UPDATE warehouse SET w_ytd = w_ytd + amount WHERE w_id = w RETURNING w_name INTO name_of_w;
--   UPDATE district SET d_ytd = d_ytd + amount WHERE d_w_id = w AND d_id = d RETURNING d_name INTO name_of_d;
--   IF customer_id < 0 THEN customer_id := customer_named(c_w, c_d, -1 - customer_id); END IF;
--   UPDATE customer SET c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount,
--     c_payment_cnt = c_payment_cnt + 1, c_data = CASE c_credit WHEN 'BC' THEN
--     left(concat_ws(' ', c_id, c_d_id, c_w_id, d, w, amount::numeric(6,2), c_data), 500) ELSE c_data END
--     WHERE c_w_id = c_w AND c_d_id = c_d AND c_id = customer_id RETURNING c_balance INTO balance;
--   INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
--     VALUES (customer_id, c_d, c_w, d, w, now(), amount, name_of_w || '    ' || name_of_d);
--   END $$
-- @setup CREATE PROCEDURE order_status(w int, d int, INOUT customer_id int, INOUT order_id int, INOUT lines int,
--   INOUT balance numeric) LANGUAGE plpgsql AS $$
--   BEGIN
--   IF customer_id < 0 THEN customer_id := customer_named(w, d, -1 - customer_id); END IF;
--   SELECT c_balance INTO balance FROM customer WHERE c_w_id = w AND c_d_id = d AND c_id = customer_id;
--   SELECT o_id INTO order_id FROM orders WHERE o_w_id = w AND o_d_id = d AND o_c_id = customer_id
--     ORDER BY o_id DESC LIMIT 1;
--   SELECT count(ol_amount) INTO lines FROM order_line WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = order_id;
--   END $$
-- @setup CREATE PROCEDURE delivery(w int, carrier int, INOUT delivered int) LANGUAGE plpgsql AS $$
--   BEGIN
--   WITH oldest AS (DELETE FROM new_order USING (SELECT d, (SELECT min(no_o_id) FROM new_order
--     WHERE no_w_id = w AND no_d_id = d) AS o FROM generate_series(1, 10) AS d) AS first
--     WHERE no_w_id = w AND no_d_id = d AND no_o_id = o RETURNING no_d_id, no_o_id),
--   sent AS (UPDATE orders SET o_carrier_id = carrier FROM oldest
--     WHERE o_w_id = w AND o_d_id = no_d_id AND o_id = no_o_id RETURNING o_d_id, o_c_id),
--   dated AS (UPDATE order_line SET ol_delivery_d = now() FROM oldest
--     WHERE ol_w_id = w AND ol_d_id = no_d_id AND ol_o_id = no_o_id RETURNING ol_d_id, ol_amount)
--   UPDATE customer SET c_balance = c_balance + total, c_delivery_cnt = c_delivery_cnt + 1
--     FROM sent JOIN (SELECT ol_d_id, sum(ol_amount) AS total FROM dated GROUP BY ol_d_id) AS sums ON ol_d_id = o_d_id
--     WHERE c_w_id = w AND c_d_id = o_d_id AND c_id = o_c_id;
--   GET DIAGNOSTICS delivered = ROW_COUNT;
--   END $$
-- @setup CREATE PROCEDURE stock_level(w int, d int, threshold int, INOUT low int) LANGUAGE plpgsql AS $$
--   DECLARE next int; BEGIN
--   SELECT d_next_o_id INTO next FROM district WHERE d_w_id = w AND d_id = d;
--   SELECT count(DISTINCT s_i_id) INTO low FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
--     WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id >= next - 20 AND ol_o_id < next AND s_quantity < threshold;
--   END $$
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
CALL new_order(:w_id, :d_id, :c_id,
  (ARRAY[:i1, :i2, :i3, :i4, :i5, :i6, :i7, :i8, :i9, :i10, :i11, :i12, :i13, :i14, :i15]::int[])[1 : :lines],
  (ARRAY[:s1, :s2, :s3, :s4, :s5, :s6, :s7, :s8, :s9, :s10, :s11, :s12, :s13, :s14, :s15]::int[])[1 : :lines],
  (ARRAY[:q1, :q2, :q3, :q4, :q5, :q6, :q7, :q8, :q9, :q10, :q11, :q12, :q13, :q14, :q15]::int[])[1 : :lines], NULL, NULL);
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
\set customer case when :by_name then -1 - :name else :c_id end
CALL payment(:w_id, :d_id, :c_w_id, :c_d_id, :amount, :customer, NULL);
-- @script order-status 4
\set c_w_id random(1, :scale)
\set c_d_id random(1, 10)
\set by_name random(1, 100) <= 60
\set name ((random(0, 255) | random(0, 999)) + 208) % 1000
\set c_id ((random(0, 1023) | random(1, 3000)) + 259) % 3000 + 1
\set customer case when :by_name then -1 - :name else :c_id end
CALL order_status(:c_w_id, :c_d_id, :customer, NULL, NULL, NULL);
-- @script delivery 4
\set w_id random(1, :scale)
\set carrier random(1, 10)
CALL delivery(:w_id, :carrier, NULL);
-- @script stock-level 4
\set w_id random(1, :scale)
\set d_id random(1, 10)
\set threshold random(10, 20)
CALL stock_level(:w_id, :d_id, :threshold, NULL);
